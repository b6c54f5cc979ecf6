-- PURPOSE  Ends runs: each verdict counts only while the session holds that very run.
-- STATES   running -> done | retained | due | dead | none
-- USES     base record arm ends fence settle shard
-- KEYS     as in open.lua
-- ARGV     1 session, 16 bytes · 2 seq, rising with each call that changes what the session holds
--          3.. verdicts, at most 1,000: one letter, id (16 bytes), run (6 bytes), then
--          d done, nothing to look up         s snooze: "delay_ms", no attempt spent
--          t done, leaves a tombstone         h handed back: as if it had not been claimed
--          x done, record looked up           c discarded: text
--          r retry: "delay_ms text"           b buried: "code text"
--          many d or t in one argument: D or T, then their members one after the other
-- RETURNS  {'OK', a letter a verdict}: o as asked, n not held (any more), c cancelled instead, since it did not succeed, m record missing
--          {'LOST'}: no such session (any more) · {'STALE'}: a newer call came first
-- COST     O(n log n) for n verdicts
local session, seq = ARGV[1], tonumber(ARGV[2])
if #ARGV - 2 > 1000 then return redis.error_reply('BADARG at most 1000 verdicts') end

local refused = fence(K, session, seq)
if refused then return { refused } end
call('ZCARD', K.wake)
call('SREM', K.held, '') -- removes nothing: at maxmemory old work must get through (rule t)
local settled, malformed = settle(K, 3)
if malformed then return redis.error_reply(malformed) end
call('HSET', K.stats, 'seq:' .. session, ARGV[2])
return { 'OK', settled }

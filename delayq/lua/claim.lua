-- PURPOSE  Gives a session due jobs to run, and settles in the same step what it has finished.
-- STATES   due -> running; running -> as in settle.lua
-- USES     base record arm ends fence settle take shard
-- KEYS     as in open.lua
-- ARGV     1 session, 16 bytes · 2 seq, rising with each call that changes what the session holds
--          3 how many jobs at most, 1 to 1,000 · 4 bytes of records at most
--          5 the due time in ms that the session has a timer for or took a marker of, 0 for none
--          6 the id of one job to run alone, '-' if the session's worker runs something else already, or '' · 7.. verdicts, at most 1,000, as in settle.lua
-- RETURNS  {'OK', now_us, wait_us, timer, more, solo, settled, ids, records}
--          wait_us, timer: arm a timer for that due time in ms, -1 and 0 if somebody else has one
--          more: 1 if more jobs may be due · solo: id of a job that wants a session of its own, or '' · settled: as settle.lua
--          ids: 16 bytes a job, one after the other · records: a list, one a job; the number of a job's run is its record's,
--          or now in whole ms where that is higher
--          {'PAUSED', now_us, -1, 0, 0, '', settled, '', {}} · {'LOST'}: no such session (any more) · {'STALE'}: a newer call came first
-- COST     O(n log n) for n jobs; n and the bytes of their records are bounded by ARGV
local session, seq, count, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local timer, alone, in_company = tonumber(ARGV[5]), ARGV[6], ARGV[6] == '-'
if in_company then alone = '' end
if not (count and count >= 1 and count <= 1000) or #ARGV - 6 > 1000 then
  return redis.error_reply('BADARG 1 to 1000 jobs, at most 1000 verdicts')
end

local refused = fence(K, session, seq)
if refused then return { refused } end
call('ZCARD', K.wake)
for p in string.gmatch(call('HGET', K.stats, 'priorities') or ALL_PRIORITIES, '%d') do call('ZCARD', K.due[p + 1]) end
if #ARGV > 6 then
  -- What is settled is written before what is claimed is read: a key of the wrong type must show before both.
  call('HLEN', K.jobs)
  check_ends(K)
end
call('SREM', K.held, '') -- removes nothing: at maxmemory old work must get through (rule t)
local settled, malformed = settle(K, 7)
if malformed then return redis.error_reply(malformed) end
local reply = claim(K, count, bytes, timer, alone, settled, in_company)
call('HSET', K.stats, 'seq:' .. session, ARGV[2])
return reply

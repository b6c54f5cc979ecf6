-- PURPOSE  Ends a session that holds nothing, and passes on the clock that it may have watched.
-- STATES   none
-- USES     base arm shard
-- KEYS     as in open.lua
-- ARGV     1 session, 16 bytes
-- RETURNS  {'OK'} · {'HOLDS', how many}: settle or hand back first · {'LOST'}: no such session (any more)
-- COST     O(log sessions)
local session = ARGV[1]
local expiry = call('ZSCORE', K.sessions, session)
if not expiry or tonumber(expiry) <= 0 then return { 'LOST' } end
local held = call('SCARD', K.held)
if held > 0 then return { 'HOLDS', held } end
local head = head_due(K, call('HGET', K.stats, 'priorities') or ALL_PRIORITIES)
call('ZCARD', K.wake)

call('ZREM', K.sessions, session)
call('HDEL', K.stats, 'seq:' .. session, 'worker:' .. session)
pass_on(K, head)
return { 'OK' }

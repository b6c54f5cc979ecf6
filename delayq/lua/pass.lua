-- PURPOSE  Passes the baton on: a worker that took the marker can't claim now, so the next idle one shall.
-- STATES   none
-- USES     base arm shard
-- KEYS     as in open.lua
-- ARGV     none
-- RETURNS  {'OK'}
-- COST     O(log n)
local s = call('HMGET', K.stats, 'paused', 'priorities')
local head = not s[1] and head_due(K, s[2] or ALL_PRIORITIES) or nil
call('ZREM', K.wake, '') -- removes nothing: at maxmemory old work must get through (rule t)
pass_on(K, head)
return { 'OK' }

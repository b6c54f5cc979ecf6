-- PURPOSE  Stops or starts claims of this shard; what runs goes on, sends are taken.
-- STATES   none
-- USES     base arm shard
-- KEYS     as in open.lua
-- ARGV     1 "1" to pause, "0" to resume
-- RETURNS  {'OK', 1 if that changed anything}
-- COST     O(log n)
local on = ARGV[1] == '1'
local s = call('HMGET', K.stats, 'paused', 'priorities')
local head = head_due(K, s[2] or ALL_PRIORITIES)
call('ZREM', K.wake, '') -- removes nothing: at maxmemory old work must get through (rule t)
if on then
  if not s[1] then call('HSET', K.stats, 'paused', num(now)) end
else
  call('HDEL', K.stats, 'paused')
  pass_on(K, head)
end
return { 'OK', ((s[1] and true or false) ~= on) and 1 or 0 }

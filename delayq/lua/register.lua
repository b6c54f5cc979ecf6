-- PURPOSE  Notes the names of queues that are in use, so that they can be listed.
-- STATES   none
-- USES     base
-- KEYS     1 queues ZSET
-- ARGV     1.. names of queues, 1 to 64
-- RETURNS  {'OK', how many were new}
-- COST     O(n log queues) for n names
if #ARGV < 1 or #ARGV > 64 then return redis.error_reply('BADARG 1 to 64 names') end
call('ZREM', KEYS[1], '') -- removes nothing: at maxmemory it is let through (rule t)
local added = 0
-- All scores are 0: the set is in the order of its names.
for i = 1, #ARGV do added = added + call('ZADD', KEYS[1], '0', ARGV[i]) end
return { 'OK', added }

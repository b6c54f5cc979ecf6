-- PURPOSE  Counts how many jobs fall due by given instants.
-- STATES   none
-- USES     base shard
-- KEYS     as in open.lua
-- ARGV     1.. how long from now, ms, 1 to 500 of them
-- RETURNS  {'OK', now ms, how many wait, due by the first instant, by the second, ...}
-- COST     O(n p log jobs) for n instants and p priorities in use
if #ARGV < 1 or #ARGV > 500 then return redis.error_reply('BADARG 1 to 500 instants') end
local reply = { 'OK', now, 0 }
for i, ahead in ipairs(ARGV) do
  if not tonumber(ahead) then return redis.error_reply('BADARG an instant is a number') end
  reply[3 + i] = 0
end
for p = 1, 10 do
  local key = K.due[p]
  local size = call('ZCARD', key)
  if size > 0 then
    reply[3] = reply[3] + size
    for i, ahead in ipairs(ARGV) do
      reply[3 + i] = reply[3 + i] + call('ZCOUNT', key, '-inf', num(now + tonumber(ahead)))
    end
  end
end
return reply

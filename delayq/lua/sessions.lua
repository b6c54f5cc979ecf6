-- PURPOSE  Lists the sessions of the shard.
-- STATES   none
-- USES     base shard
-- KEYS     as in open.lua
-- ARGV     1 how many at most, 1 to 1,000
-- RETURNS  {'OK', now ms, session, expires at ms, ...}; 0 stands for a lost session that is being taken back
-- COST     O(sessions)
local page = call('ZRANGE', K.sessions, 0, tonumber(ARGV[1]) - 1, 'WITHSCORES')
local reply = { 'OK', now }
for i = 1, #page, 2 do
  reply[#reply + 1] = page[i]
  reply[#reply + 1] = tonumber(page[i + 1])
end
return reply

-- PURPOSE  Shows jobs that a session holds, in the order of their ids.
-- STATES   none
-- USES     base shard
-- KEYS     as in open.lua
-- ARGV     1 the last member of the page before, '' for the first page · 2 how many at most, 1 to 100
-- RETURNS  {'OK', member, record, ...}; a member is id and run number; record '' where it is missing
-- COST     O(held log held); records beyond 4 MiB a page are left for the next page
local last, limit = ARGV[1], tonumber(ARGV[2])
if not (limit and limit >= 1 and limit <= 100) then return redis.error_reply('BADARG page size') end

local members = {}
for _, member in ipairs(call('SMEMBERS', K.held)) do
  if member > last then members[#members + 1] = member end
end
table.sort(members)
local reply, bytes = { 'OK' }, 0
for i = 1, math.min(#members, limit) do
  local r = call('HGET', K.jobs, sub(members[i], 1, 16)) or ''
  bytes = bytes + #r
  if bytes > 4194304 and #reply > 1 then break end
  local at = #reply
  reply[at + 1], reply[at + 2] = members[i], r
end
return reply

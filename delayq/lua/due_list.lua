-- PURPOSE  Shows a page of the jobs of one priority that wait, the soonest first.
-- STATES   none
-- USES     base shard
-- KEYS     as in open.lua
-- ARGV     1 priority, a digit · 2 due at, ms: where the last page ended, '' for the first page
--          3 id of the last job of that page, '' for the first · 4 how many at most, 1 to 100
-- RETURNS  {'OK', id, due at ms, record, ...}, record '' where it is missing
-- COST     O(log n + page); records beyond 4 MiB a page are left for the next page
local key, last_ms, last_id, limit = K.due[(tonumber(ARGV[1]) or -1) + 1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if not key then return redis.error_reply('BADARG a priority is 0 to 9') end
if not (limit and limit >= 1 and limit <= 100) then return redis.error_reply('BADARG page size') end

local start = 0
if last_ms ~= '' then
  local rank = call('ZRANK', key, last_id)
  -- That job is gone: go on with its whole millisecond rather than miss one.
  start = rank and rank + 1 or call('ZCOUNT', key, '-inf', '(' .. last_ms)
end
local page = call('ZRANGE', key, start, start + limit - 1, 'WITHSCORES')
local reply, bytes = { 'OK' }, 0
for i = 1, #page, 2 do
  local r = call('HGET', K.jobs, page[i]) or ''
  bytes = bytes + #r
  if bytes > 4194304 and #reply > 1 then break end
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3] = page[i], tonumber(page[i + 1]), r
end
return reply

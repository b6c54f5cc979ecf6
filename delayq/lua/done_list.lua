-- PURPOSE  Shows a page of the finished jobs whose records are retained, by when they go.
-- STATES   none
-- USES     base shard
-- KEYS     as in open.lua
-- ARGV     1 until, ms: where the last page ended, '' for the first page · 2 id of the last job of that page, '' for the first
--          3 how many at most, 1 to 100
-- RETURNS  {'OK', id, until ms, record, ...}, record '' where it is missing
-- COST     O(log n + page); records beyond 4 MiB a page are left for the next page
local last_ms, last_id, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
if not (limit and limit >= 1 and limit <= 100) then return redis.error_reply('BADARG page size') end

local start = 0
if last_ms ~= '' then
  local rank = call('ZRANK', K.done, last_id)
  -- That job is gone: go on with its whole millisecond rather than miss one.
  start = rank and rank + 1 or call('ZCOUNT', K.done, '-inf', '(' .. last_ms)
end
local page = call('ZRANGE', K.done, start, start + limit - 1, 'WITHSCORES')
local reply, bytes = { 'OK' }, 0
for i = 1, #page, 2 do
  local r = call('HGET', K.jobs, page[i]) or ''
  bytes = bytes + #r
  if bytes > 4194304 and #reply > 1 then break end
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3] = page[i], tonumber(page[i + 1]), r
end
return reply

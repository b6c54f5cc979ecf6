-- PURPOSE  Shows a page of the jobs that wait, the soonest first; of one instant by priority.
-- STATES   none
-- USES     base shard
-- KEYS     as in open.lua
-- ARGV     1 priority, a digit, '' for all · 2 due at, ms: where the last page ended, or where to begin; '' for the start
--          3 priority of the last job of that page · 4 its id, '' to begin with all of that instant · 5 how many at most, 1 to 100
-- RETURNS  {'OK', id, due at ms, priority, record, ...}, record '' where it is missing
-- COST     O(p (log n + page)) for p priorities in use; records beyond 4 MiB a page are left for the next page
local only, last_ms, last_p, last_id, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]) or 0, ARGV[4], tonumber(ARGV[5])
if only ~= '' and not K.due[(tonumber(only) or -1) + 1] then return redis.error_reply('BADARG a priority is 0 to 9') end
if not (limit and limit >= 1 and limit <= 100) then return redis.error_reply('BADARG page size') end

local found = {}
for p = 0, 9 do
  local key = K.due[p + 1]
  if (only == '' or only == num(p)) and call('ZCARD', key) > 0 then
    local start = 0
    if last_ms ~= '' then
      local rank = p == last_p and last_id ~= '' and call('ZRANK', key, last_id)
      if rank then
        start = rank + 1
      elseif p < last_p and last_id ~= '' then
        start = call('ZCOUNT', key, '-inf', last_ms)
      else
        -- Where the last job is gone: go on with its whole millisecond rather than miss one.
        start = call('ZCOUNT', key, '-inf', '(' .. last_ms)
      end
    end
    local page = call('ZRANGE', key, start, start + limit - 1, 'WITHSCORES')
    for i = 1, #page, 2 do found[#found + 1] = { page[i], tonumber(page[i + 1]), p, (i + 1) / 2 } end
  end
end
table.sort(found, function(a, b)
  if a[2] ~= b[2] then return a[2] < b[2] end
  if a[3] ~= b[3] then return a[3] < b[3] end
  return a[4] < b[4]
end)

local reply, bytes = { 'OK' }, 0
for i = 1, math.min(#found, limit) do
  local f = found[i]
  local r = call('HGET', K.jobs, f[1]) or ''
  bytes = bytes + #r
  if bytes > 4194304 and #reply > 1 then break end
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = f[1], f[2], f[3], r
end
return reply

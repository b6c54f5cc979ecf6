-- PURPOSE  Shows a page of the dead letters, by time of death.
-- STATES   none
-- USES     base shard
-- KEYS     as in open.lua
-- ARGV     1 "after" (oldest first) or "before" (newest first) · 2 died at, ms: where the last page ended, '' for the first page
--          3 id of the last letter of that page, '' for the first · 4 how many at most, 1 to 500 · 5 not after this ms, '' for no bound
--          6 "1" with records and notes, at most 100 then, "0" ids alone
-- RETURNS  {'OK', id, died at ms, record, note, ...}, record and note '' where not asked for or missing
-- COST     O(log n + page); records beyond 4 MiB a page are left for the next page
local order, last_ms, last_id, limit, until_ms, whole = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6] == '1'
if not (limit and limit >= 1 and limit <= (whole and 100 or 500)) then return redis.error_reply('BADARG page size') end
local forward = order == 'after'

local start = 0
if last_ms ~= '' then
  local rank = call(forward and 'ZRANK' or 'ZREVRANK', K.dead, last_id)
  if rank then
    start = rank + 1
  elseif forward then
    -- That letter is gone: go on with its whole millisecond rather than miss one.
    start = call('ZCOUNT', K.dead, '-inf', '(' .. last_ms)
  else
    start = call('ZCOUNT', K.dead, '(' .. last_ms, '+inf')
  end
end
local page = call(forward and 'ZRANGE' or 'ZREVRANGE', K.dead, start, start + limit - 1, 'WITHSCORES')
local reply, bytes = { 'OK' }, 0
for i = 1, #page, 2 do
  local id, died = page[i], tonumber(page[i + 1])
  if until_ms ~= '' and died > tonumber(until_ms) then
    if forward then break end
  else
    local r, noted = '', ''
    if whole then
      r, noted = call('HGET', K.jobs, id) or '', call('HGET', K.error, id) or ''
      bytes = bytes + #r + #noted
      if bytes > 4194304 and #reply > 1 then break end
    end
    local at = #reply
    reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = id, died, r, noted
  end
end
return reply

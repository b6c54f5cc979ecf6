-- PURPOSE  Lists the names of queues that were ever in use, a page of them.
-- STATES   none
-- USES     base
-- KEYS     1 queues ZSET
-- ARGV     1 the last name of the page before, '' for the first page · 2 how many at most, 1 to 1,000
-- RETURNS  {'OK', name, ...}, in the order of their bytes
-- COST     O(log queues + page)
local last, limit = ARGV[1], tonumber(ARGV[2])
if not (limit and limit >= 1 and limit <= 1000) then return redis.error_reply('BADARG page size') end
local rank = last ~= '' and call('ZRANK', KEYS[1], last)
local start = rank and rank + 1 or 0
local reply = call('ZRANGE', KEYS[1], start, start + limit - 1)
table.insert(reply, 1, 'OK')
return reply

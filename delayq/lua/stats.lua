-- PURPOSE  Counts the shard's jobs by state.
-- STATES   none
-- USES     base arm shard
-- KEYS     as in open.lua, then 21.. held:<session>, one for each session
-- ARGV     none
-- RETURNS  {'OK', now ms, records, waiting, due, running, dead, done, sessions, expired, paused, head ms, mark, field, value, ...}
--          waiting counts the due too; sessions are those whose lease lives, expired the others: nobody has taken their jobs back yet;
--          head is -1 where nothing waits; the mark has when it was made, in ms, and where the counters
--          enqueued, done, retried and dead stood then, '' where no worker has made one; then the counters of stats
-- COST     O(log n + sessions)
local s = call('HMGET', K.stats, 'paused', 'priorities', 'mark_old')
local priorities = s[2] or ALL_PRIORITIES
local waiting, due, running = 0, 0, 0
for p in string.gmatch(priorities, '%d') do
  local key = K.due[p + 1]
  local size = call('ZCARD', key)
  if size > 0 then
    waiting = waiting + size
    due = due + call('ZCOUNT', key, '-inf', num(now))
  end
end
-- Counted from the held sets, never by subtraction (rule s).
for i = 21, #KEYS do running = running + call('SCARD', KEYS[i]) end
local sessions = call('ZCOUNT', K.sessions, '(' .. num(now), '+inf')
local reply = { 'OK', now, call('HLEN', K.jobs), waiting, due, running, call('ZCARD', K.dead), call('ZCARD', K.done),
  sessions, call('ZCARD', K.sessions) - sessions, s[1] and 1 or 0, head_due(K, priorities) or -1, s[3] or '' }
local names = { 'enqueued', 'done', 'retried', 'snoozed', 'returned', 'discarded', 'dead', 'cancelled', 'expired', 'crashed',
  'redriven', 'deleted', 'quarantined', 'sessions_lost', 'cancelling', 'repaired' }
local values = call('HMGET', K.stats, unpack(names))
for i, name in ipairs(names) do
  reply[#reply + 1] = name
  reply[#reply + 1] = number(values[i], 0)
end
return reply

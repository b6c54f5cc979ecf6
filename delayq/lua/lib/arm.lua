-- lib/arm: who watches the clock (rules l and m). K needs stats, wake; head_due also due.

-- Where `stats` was lost, every priority is looked at until a beat has found those in use.
local ALL_PRIORITIES = '0123456789'

-- A job became due at `due`, earlier than before perhaps: one marker, if no timer covers it.
local function arm(K, due)
  local at = number(call('HGET', K.stats, 'timer_at'))
  if not at or due < at or at <= now then
    -- An overdue timer stays as it is, so that beats see that nobody came.
    if at and at < due then due = at end
    call('HSET', K.stats, 'timer_at', num(due))
    call('ZADD', K.wake, num(due), 'm')
  end
end

-- Later than any due time, and a number that an answer can still carry when it is in us.
local FAR = 9007199254740991

-- The earliest due time over the priorities in use, or nil. A foreign hand may have written any score, infinite ones too.
local function head_due(K, priorities)
  local head
  for p in string.gmatch(priorities, '%d') do
    local first = call('ZRANGE', K.due[p + 1], 0, 0, 'WITHSCORES')
    local due = tonumber(first[2])
    if due and (not head or due < head) then head = due end
  end
  return head and math.min(math.max(head, 0), FAR)
end

-- Gives the clock away: whoever is idle next takes the marker; nobody holds a timer for an empty queue.
local function pass_on(K, head)
  if head then
    call('HSET', K.stats, 'timer_at', num(head))
    call('ZADD', K.wake, num(head), 'm')
  else
    call('HDEL', K.stats, 'timer_at')
  end
end

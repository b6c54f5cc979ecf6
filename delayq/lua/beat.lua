-- PURPOSE  Renews a session's lease, and looks after what others may have left: lost sessions, a lost timer, old records.
-- STATES   retained -> none
-- USES     base arm shard
-- KEYS     as in open.lua
-- ARGV     1 session, 16 bytes · 2 lease, ms · 3 the due time in ms that the session has a timer for, 0 for none
--          4 what the worker says of itself, at most 1,024 bytes that no script looks into; '' or missing: nothing new
-- RETURNS  {'OK', held, paused, wait_us, lost session, ...}: how many jobs it holds; 1 if the queue is paused; how long that
--          timer still has, -1 if it is not the shard's timer; up to 5 sessions for rescue.lua
--          {'LOST'}: the session's jobs were given away
-- COST     O(log sessions)
local session, lease_ms, timer, report = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] or ''
if #report > 1024 then return redis.error_reply('BADARG a report has at most 1,024 bytes') end

local expiry = call('ZSCORE', K.sessions, session)
if not expiry or tonumber(expiry) <= 0 then return { 'LOST' } end
local s = call('HMGET', K.stats, 'paused', 'timer_at', 'priorities', 'last_beat', 'lease_max', 'mark_new', 'hold_until')
local paused, timer_at, lease_max = s[1] and 1 or 0, number(s[2], 0), number(s[5], lease_ms)
local held = call('SCARD', K.held)
local priorities = ''
for p = 0, 9 do
  if call('ZCARD', K.due[p + 1]) > 0 or string.find(s[3] or '', p, 1, true) then priorities = priorities .. p end
end
call('ZCARD', K.wake)
local over = call('ZRANGEBYSCORE', K.done, '-inf', num(now), 'LIMIT', 0, 100)
if #over > 0 then call('HLEN', K.jobs) end

call('ZREM', K.sessions, '') -- removes nothing: at maxmemory old work must get through (rule t)
call('ZADD', K.sessions, 'XX', num(now + lease_ms), session)
if priorities ~= (s[3] or '') then call('HSET', K.stats, 'priorities', priorities) end

if report ~= '' then call('HSET', K.stats, 'worker:' .. session, report) end

-- Where the counters stood: the older of two marks is one minute old at least, and rates are counted from it.
local marked_at = tonumber(string.match(s[6] or '', '^%d+') or '') or 0
if marked_at > now or now - marked_at >= 60000 then
  local mark = num(now)
  for _, count in ipairs(call('HMGET', K.stats, 'enqueued', 'done', 'retried', 'dead')) do mark = mark .. ' ' .. num(number(count, 0)) end
  call('HSET', K.stats, 'mark_old', marked_at <= now and s[6] or mark, 'mark_new', mark)
end

-- Rule e: nobody could beat for a while, so nobody's expiry means anything for one more lease.
local last_beat = number(s[4], now)
if now - last_beat > lease_max / 2 then call('HSET', K.stats, 'hold_until', num(now + lease_max)) end
call('HSET', K.stats, 'last_beat', num(now))
-- The clock was set back: no lease is longer than a lease, and neither is that time of grace.
if number(s[7], 0) > now + lease_max then call('HSET', K.stats, 'hold_until', num(now + lease_max)) end
local ahead = call('ZRANGEBYSCORE', K.sessions, '(' .. num(now + lease_max), '+inf', 'LIMIT', 0, 100)
for _, other in ipairs(ahead) do call('ZADD', K.sessions, 'XX', num(now + lease_max), other) end

-- Retained jobs whose time is over, also where nothing is settled that would trim them: their ids are free again.
if #over > 0 then
  call('ZREM', K.done, unpack(over))
  call('HDEL', K.jobs, unpack(over))
end

local wait_us = -1
if timer > 0 and timer == timer_at then
  wait_us = math.max(timer_at * 1000 - now_us, 0)
elseif timer_at + 50 <= now and paused == 0 then
  -- Nobody watches the clock: its holder died, or a dead connection ate the marker (rule m).
  local head = head_due(K, priorities)
  if head then pass_on(K, head) end
end

local reply = { 'OK', held, paused, wait_us }
for _, lost in ipairs(call('ZRANGEBYSCORE', K.sessions, '-inf', num(now), 'LIMIT', 0, 5)) do
  if #lost == 16 then
    reply[#reply + 1] = lost
  else
    -- No session of anybody's: whoever is lost behind it must be told too (rule u).
    call('ZREM', K.sessions, lost)
    call('HINCRBY', K.stats, 'quarantined', 1)
  end
end
return reply

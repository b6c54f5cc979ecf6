-- PURPOSE  Takes the jobs of a lost session back, some at a time, and fences it before that.
-- STATES   running -> due | dead | none
-- USES     base record arm ends shard
-- KEYS     as in open.lua, 5 being held:<lost session>
-- ARGV     1 the lost session, 16 bytes · 2 how many jobs at most, 1 to 500
-- RETURNS  {code, given back, buried, cancelled, quarantined}: DONE all is taken back, MORE call again
--          {'ALIVE'}: its lease has not run out · {'HELD'}: after an outage nobody is lost for one more lease
--          {'GONE'}: no such session
-- COST     O(n log n) for n jobs
local session, chunk = ARGV[1], tonumber(ARGV[2])
if not (chunk and chunk >= 1 and chunk <= 500) then return redis.error_reply('BADARG 1 to 500 jobs') end

local expiry = tonumber(call('ZSCORE', K.sessions, session) or nil)
if not expiry then return { 'GONE' } end
if expiry > now then return { 'ALIVE' } end
if expiry > 0 and number(call('HGET', K.stats, 'hold_until'), 0) > now then return { 'HELD' } end

local members = call('SRANDMEMBER', K.held, chunk)
local ids, records = {}, {}
if #members > 0 then
  for i, member in ipairs(members) do ids[i] = sub(member, 1, 16) end
  records = call('HMGET', K.jobs, unpack(ids))
end
check_ends(K)
for p = 1, 10 do call('ZCARD', K.due[p]) end
call('ZCARD', K.wake)
call('HLEN', K.stats)

call('ZREM', K.sessions, '') -- removes nothing: at maxmemory old work must get through (rule t)
-- Fenced first: from here on the session can take and settle nothing, however long this goes on (rule b).
call('ZADD', K.sessions, '0', session)
if #members > 0 then call('SREM', K.held, unpack(members)) end
local given, buried, cancelled, quarantined, head = 0, 0, 0, 0, nil
local runs = runs_held(members, ids, records)
for i, id in ipairs(ids) do
  local r, run = records[i], runs[id]
  runs[id] = nil
  if not run then
    quarantine(K, id, r)
    quarantined = quarantined + 1
  elseif cancel_waits(r) then
    call('HINCRBY', K.stats, 'cancelling', -1)
    erase(K, id, r, CANCELLED)
    cancelled = cancelled + 1
  else
    local crashes, limit = byte(r, 4), be2_at(r, 9)
    -- In company nobody knows whose fault it was: one crash is charged, a second only remembered (rule p).
    local alone = crashes >= SOLO_AT
    local attempts = (crashes == 0 or alone) and attempts_plus_one(r) or be2_at(r, 7)
    local why = 'the worker that ran it was lost: it crashed, froze, or could not reach the store for a whole lease'
    if alone then
      bury(K, id, r, 'crash_loop', attempts, why, run)
      buried = buried + 1
    elseif limit < 65535 and attempts >= limit then
      bury(K, id, r, 'retries_exhausted', attempts, why, run)
      buried = buried + 1
    else
      local due, score = be6_at(r, 17), be6_at(r, 17)
      if crashes > 0 then
        -- 2 to 4 s by the id's random bits: away from those it crashed with.
        local a, b = byte(id, 15, 16)
        due = now + 2000 + floor((a * 256 + b) * 2000 / 65535)
        score = due
      end
      call('HSET', K.jobs, id, rewrite(r, crashes + 1, be2_at(r, 5), attempts, due, run))
      call('HSET', K.error, id, note('crash', attempts, why))
      call('ZADD', K.due[priority_of(r) + 1], num(score), id)
      if not head or score < head then head = score end
      given = given + 1
    end
  end
end
local left = call('SCARD', K.held)
if left == 0 then
  call('ZREM', K.sessions, session)
  call('HDEL', K.stats, 'seq:' .. session, 'worker:' .. session)
  call('HINCRBY', K.stats, 'sessions_lost', 1)
end
if given > 0 then call('HINCRBY', K.stats, 'crashed', given) end
if buried > 0 then call('HINCRBY', K.stats, 'dead', buried) end
if cancelled > 0 then
  call('HINCRBY', K.stats, 'cancelled', cancelled)
  trim_tombs(K, 2 * cancelled)
end
if head then arm(K, head) end
return { left == 0 and 'DONE' or 'MORE', given, buried, cancelled, quarantined }

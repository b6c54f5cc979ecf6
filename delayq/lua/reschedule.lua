-- PURPOSE  Gives a waiting job another due time.
-- STATES   due -> due
-- USES     base record arm ends shard
-- KEYS     as in open.lua
-- ARGV     1 id, 16 bytes · 2 when, "+delay_ms" from now or "@due_ms" since 1970, up to the year 9999
-- RETURNS  {'OK', due ms} · {'RUNNING'} · {'DEAD'} · {'DONE'} · {'ENDED', how}: as cancel.lua · {'NONE'}: no such job
-- COST     O(log n)
local id, when = ARGV[1], ARGV[2]
local sign, ms = string.match(when, '^([+@])(%d+)$')
local due = sign and #ms <= 15 and tonumber(ms) + (sign == '+' and math.ceil(now_us / 1000) or 0)
if not due or due > DUE_MAX then return redis.error_reply('BADARG when is +ms or @ms, up to the year 9999') end
local r = call('HGET', K.jobs, id)
if not r then
  local how = ended_as(call('ZSCORE', K.tombs, id))
  if not how then return { 'NONE' } end
  return { 'ENDED', how }
end
if call('ZSCORE', K.dead, id) then return { 'DEAD' } end
if call('ZSCORE', K.done, id) then return { 'DONE' } end
if not well_formed(r) then return redis.error_reply('CORRUPT the record has no readable header') end
local key = K.due[priority_of(r) + 1]
if not call('ZSCORE', key, id) then return { 'RUNNING' } end
call('ZCARD', K.wake)
call('HLEN', K.stats)

call('ZREM', key, '') -- removes nothing: at maxmemory old work must get through (rule t)
local expires, moved = expires_of(r), due - be6_at(r, 17)
local changed = sub(r, 1, 16) .. be6(due) .. sub(r, 23)
if expires > 0 then
  -- It expires as long after the new due time as after the old one.
  expires = math.min(math.max(expires + moved, 1), DUE_MAX)
  changed = sub(changed, 1, HEAD) .. be6(expires) .. sub(changed, HEAD + 7)
end
call('HSET', K.jobs, id, changed)
call('ZADD', key, 'XX', num(due), id)
arm(K, due)
return { 'OK', due }

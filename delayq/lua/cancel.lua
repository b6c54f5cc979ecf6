-- PURPOSE  Cancels a job: at once while it waits, at its end while it runs.
-- STATES   due -> none; running -> running, flagged
-- USES     base record ends shard
-- KEYS     as in open.lua
-- ARGV     1 id, 16 bytes
-- RETURNS  {'CANCELLED'}: it waited and is gone, by this call or the same one before · {'RUNNING'}: flagged, ends as cancelled unless
--          this run succeeds · {'DEAD'} · {'DONE'} · {'ENDED', how}: it ended within the last 15 s, as in lib/ends · {'NONE'}: no such job
-- COST     O(log n)
local id = ARGV[1]
local r = call('HGET', K.jobs, id)
if not r then
  local how = ended_as(call('ZSCORE', K.tombs, id))
  if not how then return { 'NONE' } end
  if how == CANCELLED then return { 'CANCELLED' } end
  return { 'ENDED', how }
end
check_ends(K)
call('HLEN', K.stats)
if call('ZSCORE', K.dead, id) then return { 'DEAD' } end
if call('ZSCORE', K.done, id) then return { 'DONE' } end
if not well_formed(r) then return redis.error_reply('CORRUPT the record has no readable header') end
local key = K.due[priority_of(r) + 1]
local waits = call('ZSCORE', key, id)

call('ZREM', key, '') -- removes nothing: at maxmemory old work must get through (rule t)
if waits then
  call('ZREM', key, id)
  erase(K, id, r, CANCELLED)
  trim_tombs(K, 2)
  call('HINCRBY', K.stats, 'cancelled', 1)
  return { 'CANCELLED' }
end
if not cancel_waits(r) then
  call('HSET', K.jobs, id, sub(r, 1, 2) .. char(1) .. sub(r, 4))
  call('HINCRBY', K.stats, 'cancelling', 1)
end
return { 'RUNNING' }

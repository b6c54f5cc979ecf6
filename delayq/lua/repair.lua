-- PURPOSE  Gives records that are in no place back to work, or removes entries that have no record, each after another look.
-- STATES   none -> due | dead | gone (cancelled)
-- USES     base record arm ends orphan shard
-- KEYS     as in audit.lua
-- ARGV     1 what, as in audit.lua · 2 how much sessions may hold, as there · 3 how many ids, 1 to 100 · then the ids, and after them
--          all sessions of the shard, 16 bytes each
-- RETURNS  {'OK', a letter an id}: g waits again · c ended as cancelled, as was asked for while it ran · d is a dead letter: it can't be
--          read, or its unique key has another owner by now · r the entry is removed · f left: a record whose field is no id
--          n nothing is wrong with it (any more) · {'AGAIN'}, {'MANY'}: as in audit.lua, nothing was done
-- COST     O(n log n + held) for n ids
local what, most, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if not (most and count and count >= 1 and count <= 100) or #ARGV < 3 + count or #KEYS ~= 20 + #ARGV - 3 - count then
  return redis.error_reply('BADARG 1 to 100 ids, and a held set for each session')
end
local ids, letters = {}, {}
for i = 1, count do ids[i], letters[i] = ARGV[3 + i], 'n' end

if what ~= 'records' then
  local key = K.due[(tonumber(what) or -1) + 1]
  if what == 'dead' then key = K.dead elseif what == 'done' then key = K.done end
  if not key then return redis.error_reply('BADARG no such place') end
  call('ZCARD', key)
  call('HLEN', K.jobs)
  call('HLEN', K.error)
  call('HLEN', K.stats)
  call('ZREM', key, '') -- removes nothing: at maxmemory old work must get through (rule t)
  local removed = 0
  for i, id in ipairs(ids) do
    if call('HEXISTS', K.jobs, id) == 0 and call('ZREM', key, id) == 1 then
      call('HDEL', K.error, id)
      letters[i], removed = 'r', removed + 1
    end
  end
  if removed > 0 then call('HINCRBY', K.stats, 'quarantined', removed) end
  return { 'OK', table.concat(letters) }
end

if sessions_differ(K, 4 + count) then return { 'AGAIN' } end
local orphans = orphans_among(K, ids, most)
if not orphans then return { 'MANY' } end
local is_orphan = {}
for _, id in ipairs(orphans) do is_orphan[id] = true end
local records = call('HMGET', K.jobs, unpack(ids))
check_ends(K)
call('ZCARD', K.wake)
call('HLEN', K.stats)

call('ZREM', K.dead, '') -- removes nothing: at maxmemory old work must get through (rule t)
local counts, head = { repaired = 0, cancelled = 0, dead = 0 }, nil
for i, id in ipairs(ids) do
  local r = records[i]
  if r and is_orphan[id] then
    -- Named twice, it is an orphan once.
    is_orphan[id] = nil
    local lock = #id == 16 and well_formed(r) and unique_of(r)
    local entry = lock and call('HGET', K.unique, lock)
    local owner = entry and sub(entry, 1, 16)
    if #id ~= 16 then
      letters[i] = 'f'
    elseif not well_formed(r) then
      quarantine(K, id, r)
      letters[i] = 'd'
    elseif cancel_waits(r) then
      -- Rule o: no session is left that could end it so.
      erase(K, id, r, CANCELLED)
      letters[i], counts.cancelled = 'c', counts.cancelled + 1
    elseif owner and owner ~= id and call('HEXISTS', K.jobs, owner) == 1 then
      -- Two jobs of one key must not both run: which is wanted, a person decides.
      bury(K, id, r, 'buried', be2_at(r, 7), 'its record was in no place, and its unique key has another owner by now', now)
      letters[i], counts.dead = 'd', counts.dead + 1
    else
      -- A number above each that was given out by now (rule d): whoever may still run it can't settle it any more.
      local due = be6_at(r, 17)
      call('HSET', K.jobs, id, rewrite(r, byte(r, 4), be2_at(r, 5), be2_at(r, 7), due, now))
      call('HSET', K.error, id, note('repaired', be2_at(r, 7), 'its record was in no place: neither waiting, held, dead nor done'))
      if lock and owner ~= id then call('HSET', K.unique, lock, id .. be6(0)) end
      call('ZADD', K.due[priority_of(r) + 1], num(due), id)
      if not head or due < head then head = due end
      letters[i], counts.repaired = 'g', counts.repaired + 1
    end
  end
end
-- Whoever waits is watched for before anything is counted: a counter that a foreign hand spoiled stops a script, and nothing is
-- rolled back.
if head then arm(K, head) end
if counts.cancelled > 0 then
  trim_tombs(K, 2 * counts.cancelled)
  call('HINCRBY', K.stats, 'cancelling', -counts.cancelled)
end
for name, n in pairs(counts) do
  if n > 0 then call('HINCRBY', K.stats, name, n) end
end
return { 'OK', table.concat(letters) }

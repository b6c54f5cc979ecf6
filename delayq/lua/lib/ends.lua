-- lib/ends: how a job ends. K needs jobs, stats, dead, error, done, unique, tombs.
-- A tombstone's score is its ms times 8 plus how the job ended:
local DONE, CANCELLED, EXPIRED, DELETED, DISCARDED = 1, 2, 3, 4, 5
-- Senders repeat a call for less than this; until then an ended id is remembered (rule i).
local TOMB_MS = 15000

-- Redis does not roll back: a key of the wrong type must show before the first write.
local function check_ends(K)
  call('HLEN', K.error)
  call('HLEN', K.unique)
  call('ZCARD', K.dead)
  call('ZCARD', K.done)
  call('ZCARD', K.tombs)
end

local function bury_tomb(K, id, how)
  call('ZADD', K.tombs, num(now * 8 + how), id)
end

-- Scores up to this are of tombstones that are too old to count, trimmed or not: an id may be used again.
local tomb_floor = (now - TOMB_MS) * 8

-- How the job ended that left this tombstone, nil where there is none (any more).
local function ended_as(score)
  score = tonumber(score or nil)
  if score and score > tomb_floor then return score % 8 end
end

-- Whether the tombstone of this rank is too old to count. They stand in the order of their age.
local function old_tomb(K, rank)
  local score = call('ZRANGE', K.tombs, rank, rank, 'WITHSCORES')[2]
  return score and tonumber(score) <= tomb_floor
end

-- Drops at most `most` old tombstones, at least one: bounded work, and more than is added. Counting walks over what it
-- counts in the embedded engine, so that only fewer than `most` are ever counted; mostly none is old.
local function trim_tombs(K, most)
  if not old_tomb(K, 0) then return end
  local leaving = most
  if not old_tomb(K, most - 1) then leaving = call('ZCOUNT', K.tombs, '-inf', num(tomb_floor)) end
  call('ZREMRANGEBYRANK', K.tombs, 0, leaving - 1)
end

-- Only the owner releases (rule r).
local function release_unique(K, id, r)
  local key = unique_of(r)
  if not key then return end
  local owner = call('HGET', K.unique, key)
  if owner and sub(owner, 1, 16) == id then call('HDEL', K.unique, key) end
end

-- These jobs are over and leave nothing but a tombstone. No id comes twice, and no more come than can be unpacked by twos.
local function erase_all(K, ids, records, how)
  local locks, of = {}, {}
  for i = 1, #ids do
    local lock = unique_of(records[i])
    if lock then
      locks[#locks + 1] = lock
      of[#locks] = ids[i]
    end
  end
  if #locks > 0 then
    -- Only the owner releases (rule r).
    local owned = {}
    for k, owner in ipairs(call('HMGET', K.unique, unpack(locks))) do
      if owner and sub(owner, 1, 16) == of[k] then owned[#owned + 1] = locks[k] end
    end
    if #owned > 0 then call('HDEL', K.unique, unpack(owned)) end
  end
  local tombs, tomb = {}, num(now * 8 + how)
  for i = 1, #ids do tombs[2 * i - 1], tombs[2 * i] = tomb, ids[i] end
  call('HDEL', K.jobs, unpack(ids))
  call('HDEL', K.error, unpack(ids))
  call('ZADD', K.tombs, unpack(tombs))
end

local function erase(K, id, r, how) erase_all(K, { id }, { r }, how) end

-- The record's note: a code, when, after how many attempts; then free text.
local function note(code, attempts, text)
  return code .. ' ' .. num(now) .. ' ' .. num(attempts) .. '\n' .. text
end

-- The job becomes a dead letter; its envelope stays as it came.
local function bury(K, id, r, code, attempts, text, run)
  release_unique(K, id, r)
  call('HSET', K.jobs, id, rewrite(r, byte(r, 4), be2_at(r, 5), attempts, be6_at(r, 17), run))
  call('HSET', K.error, id, note(code, attempts, text))
  call('ZADD', K.dead, num(now), id)
end

-- Puts aside what can't be run: counted, and kept where something of it exists (rule u).
local function quarantine(K, id, r)
  call('HINCRBY', K.stats, 'quarantined', 1)
  if r and #id == 16 and not well_formed(r) then
    -- No field of it can be trusted, so it is not rewritten either.
    call('HSET', K.error, id, note('undecodable', 0, 'the record has no readable header'))
    call('ZADD', K.dead, num(now), id)
    call('HINCRBY', K.stats, 'dead', 1)
  end
end

-- Retained jobs whose time is over.
local function trim_done(K, most)
  local ids = call('ZRANGEBYSCORE', K.done, '-inf', num(now), 'LIMIT', 0, most)
  if #ids > 0 then
    call('ZREM', K.done, unpack(ids))
    call('HDEL', K.jobs, unpack(ids))
  end
end

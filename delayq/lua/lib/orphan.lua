-- lib/orphan: which records are in no place of jobs. K needs all keys of the shard; KEYS has the held sets of all sessions from 21 on.

-- Whether the shard's sessions are others than those in ARGV from `first` on, whose held sets are in KEYS.
local function sessions_differ(K, first)
  local asked, standing = {}, 0
  for i = first, #ARGV do asked[ARGV[i]] = true end
  -- What is no id is nobody's session.
  for _, session in ipairs(call('ZRANGE', K.sessions, 0, 1999)) do
    if #session == 16 then
      if not asked[session] then return true end
      standing = standing + 1
    end
  end
  return standing ~= #ARGV - first + 1
end

-- Those of the ids that no set has and no session holds, as a list; nil where sessions hold more than `most`, so that looking
-- through it would keep the server from other work.
local function orphans_among(K, ids, most)
  local places, suspects, orphans = {}, {}, {}
  for p = 1, 10 do
    if call('ZCARD', K.due[p]) > 0 then places[#places + 1] = K.due[p] end
  end
  if call('ZCARD', K.dead) > 0 then places[#places + 1] = K.dead end
  if call('ZCARD', K.done) > 0 then places[#places + 1] = K.done end
  for _, id in ipairs(ids) do
    local placed = false
    for _, key in ipairs(places) do
      placed = call('ZSCORE', key, id)
      if placed then break end
    end
    if not placed then suspects[#suspects + 1] = id end
  end
  if #suspects == 0 then return orphans end
  local count, held = 0, {}
  for i = 21, #KEYS do count = count + call('SCARD', KEYS[i]) end
  if count > most then return nil end
  for i = 21, #KEYS do
    for _, member in ipairs(call('SMEMBERS', KEYS[i])) do held[sub(member, 1, 16)] = true end
  end
  for _, id in ipairs(suspects) do
    if not held[id] then orphans[#orphans + 1] = id end
  end
  return orphans
end

-- PURPOSE  Puts jobs into the store, each once, whatever number of times it is sent.
-- STATES   none -> due
-- USES     base record arm ends
-- KEYS     1 jobs HASH · 2 stats HASH · 3 wake ZSET · 4 tombs ZSET · 5 unique HASH
--          6.. due:<priority> ZSET, one for each digit of ARGV[3]
-- ARGV     1 schema, number · 2 shards of the queue, number · 3 the priorities of the due sets in KEYS, digits
--          then 4 for each job, at most 1,000 jobs:
--          id, 16 bytes · when, "+delay_ms" from now or "@due_ms" since 1970, up to the year 9999
--          options, "priority attempts_max", then each at most once and in this order:
--          " expires=ms after due" " retain=ms" " unique_ttl=ms" " unique=key", the key of 1 to 200 bytes
--          envelope, bytes (see docs/wire-format.md)
-- RETURNS  {'OK', a reply a job}: 1 created, 0 there already or ended just now, or 16 bytes: the id that owns the unique key
--          {'SCHEMA', stored} · {'SHARDS', stored}: nothing was written
--          error BADARG: an argument is wrong, nothing was written
-- COST     O(log n) a job
local K = { jobs = KEYS[1], stats = KEYS[2], wake = KEYS[3], tombs = KEYS[4], unique = KEYS[5] }
local schema, shards, priorities = ARGV[1], ARGV[2], ARGV[3]
local FIRST, EACH = 4, 4

local due_key = {}
for i = 1, #priorities do due_key[sub(priorities, i, i)] = KEYS[5 + i] end

local s = call('HMGET', K.stats, 'schema', 'shards', 'priorities', 'large')
if s[1] and s[1] ~= schema then return { 'SCHEMA', s[1] } end
if s[2] and s[2] ~= shards then return { 'SHARDS', s[2] } end
call('ZCARD', K.wake)
for _, key in pairs(due_key) do call('ZCARD', key) end

local now_up = math.ceil(now_us / 1000)
local enqueued, run = be6(now), be6(now)

-- Options repeat from job to job: each text is read once.
local parsed = {}
local function options(text)
  local priority, limit, rest = string.match(text, '^(%d) (%d+)(.*)$')
  if not priority or tonumber(limit) < 1 then return nil end
  local o = { key = due_key[priority], retain = 0, unique_ttl = 0 }
  local function option(pattern)
    local value, after = string.match(rest, pattern)
    if value then rest = after end
    return value
  end
  o.expires = tonumber(option('^ expires=(%d+)(.*)$'))
  o.retain = tonumber(option('^ retain=(%d+)(.*)$') or 0)
  o.unique_ttl = tonumber(option('^ unique_ttl=(%d+)(.*)$') or 0)
  o.unique = option('^ unique=(.+)()$')
  if o.unique then rest = '' end
  if rest ~= '' or not o.key or (o.unique and #o.unique > 200) then return nil end
  o.start = char(1) .. priority .. char(0, 0, 0, 0, 0, 0) .. be2(math.min(tonumber(limit), 65535)) .. run
  o.extended = o.expires or o.retain > 0 or o.unique
  parsed[text] = o
  return o
end

local delays = {}
local function due_of(when)
  local sign, text = string.match(when, '^([+@])(%d+)$')
  if not sign or #text > 15 then return nil end
  local ms = tonumber(text)
  -- Rounded up: not even a fraction of a millisecond early (rule h).
  if sign == '+' then
    ms = now_up + ms
    text = num(ms)
  end
  if ms > DUE_MAX then return nil end
  delays[when] = { ms = ms, text = text, bytes = be6(ms) .. enqueued }
  return delays[when]
end

local jobs = (#ARGV - FIRST + 1) / EACH
if jobs ~= floor(jobs) or jobs > 1000 then return redis.error_reply('BADARG 4 arguments a job, at most 1000 jobs') end
local ids, opts, dues = {}, {}, {}
for j = 1, jobs do
  local at = FIRST + (j - 1) * EACH
  local id, when, text = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local o, due = parsed[text] or options(text), delays[when] or due_of(when)
  if #id ~= 16 then return redis.error_reply('BADARG job ' .. j .. ': an id has 16 bytes') end
  if not due then return redis.error_reply('BADARG job ' .. j .. ': when is +ms or @ms, up to the year 9999') end
  if not o then return redis.error_reply('BADARG job ' .. j .. ': options are malformed') end
  ids[j], opts[j], dues[j] = id, o, due
end
local ended, there, keys, entries = {}, {}, {}, {}
for j = 1, jobs do
  if opts[j].unique then keys[#keys + 1] = opts[j].unique end
end
if #keys > 0 then
  for k, entry in ipairs(call('HMGET', K.unique, unpack(keys))) do entries[keys[k]] = entry end
end
if jobs > 0 then
  ended = call('ZMSCORE', K.tombs, unpack(ids))
  if s[4] then
    -- Records may be large: they are not read just to see that they are there.
    for j = 1, jobs do there[j] = call('HEXISTS', K.jobs, ids[j]) == 1 end
  else
    there = call('HMGET', K.jobs, unpack(ids))
  end
end
call('HLEN', K.unique)

-- Claims read many small records at once; a larger one makes them look at sizes from then on.
local LARGE, large = 16000, false
local reply, created, head, adds, fields, fresh, locks = { 'OK' }, 0, nil, {}, {}, {}, {}

-- The id that has this key, if its job is neither this one nor over.
local function owner_of(key, id)
  local entry = entries[key]
  -- What a foreign hand put there owns nothing.
  if not entry or #entry ~= 22 then return nil end
  local owner, until_ms = sub(entry, 1, 16), be6_at(entry, 17)
  if owner == id or (until_ms > 0 and until_ms <= now) then return nil end
  if not fresh[owner] and call('HEXISTS', K.jobs, owner) == 0 then return nil end
  return owner
end

local begun_for, begun_due, begun
for j = 1, jobs do
  local id, o, due = ids[j], opts[j], dues[j]
  local gone = ended[j] and ended_as(ended[j])
  local owner = o.unique and not gone and owner_of(o.unique, id)
  if owner then
    reply[j + 1] = owner
  elseif gone or there[j] or fresh[id] then
    reply[j + 1] = 0
  else
    if o ~= begun_for or due ~= begun_due then
      local ext = ''
      if o.extended then
        local expires = o.expires and math.min(due.ms + o.expires, DUE_MAX) or 0
        ext = be6(expires) .. be6(math.min(o.retain, DUE_MAX)) .. (o.unique or '')
      end
      begun_for, begun_due, begun = o, due, o.start .. due.bytes .. char(#ext) .. ext
    end
    if o.unique then
      local until_ms = o.unique_ttl > 0 and math.min(due.ms + o.unique_ttl, DUE_MAX) or 0
      local entry, at = id .. be6(until_ms), #locks
      locks[at + 1], locks[at + 2] = o.unique, entry
      entries[o.unique] = entry
    end
    local list = adds[o.key]
    if not list then
      list = {}
      adds[o.key] = list
    end
    local envelope, n, at = ARGV[FIRST + 3 + (j - 1) * EACH], #list, 2 * created
    list[n + 1], list[n + 2] = due.text, id
    fields[at + 1], fields[at + 2] = id, begun .. envelope
    fresh[id] = true
    created = created + 1
    reply[j + 1] = 1
    if not head or due.ms < head then head = due.ms end
    if #envelope > LARGE then large = true end
  end
end
if created == 0 then return reply end
if #locks > 0 then call('HSET', K.unique, unpack(locks)) end
call('HSET', K.jobs, unpack(fields))
for key, list in pairs(adds) do call('ZADD', key, unpack(list)) end

if not s[1] then call('HSET', K.stats, 'schema', schema, 'shards', shards) end
local known, is_new = s[3] or '', false
for i = 1, #priorities do
  local p = sub(priorities, i, i)
  is_new = is_new or (adds[due_key[p]] and not string.find(known, p, 1, true))
end
if is_new then
  local wanted = ''
  for p = 0, 9 do
    if string.find(known, p, 1, true) or adds[due_key[num(p)]] then wanted = wanted .. p end
  end
  call('HSET', K.stats, 'priorities', wanted)
end
if large then call('HSET', K.stats, 'large', 1) end
call('HINCRBY', K.stats, 'enqueued', created)
arm(K, head)
return reply

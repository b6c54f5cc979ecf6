-- lib/settle: takes verdicts from ARGV[first] to the last. K needs all keys of the shard.
-- A verdict: one letter, the held member (id and run, 22 bytes), and what the letter wants:
--   d done, nothing to look up         s snooze: "delay_ms", no attempt spent
--   t done, leaves a tombstone         h handed back: as if it had not been claimed
--   x done, record looked up           c discarded: text
--   r retry: "delay_ms text"           b buried: "code text"
-- Many of the first two go in one argument: D or T, then their members one after the other.
-- Answers one letter each: o as asked, n not held (any more), c cancelled instead, m record missing.

-- What must follow the member, by letter.
local SHAPE = { d = '^$', t = '^$', x = '^$', h = '^$', r = '^%d+ ', s = '^%d+$', c = '', b = '^%S+ ' }

local function due_in(delay_ms)
  return math.min(math.ceil(now_us / 1000) + tonumber(delay_ms), DUE_MAX)
end

-- `over` gathers the successes that leave nothing: they are erased together.
local function settle_one(K, letter, id, r, run, rest, armed, over)
  if cancel_waits(r) then
    -- Rule o: the cancel could not touch the holder's set; here it takes effect.
    call('HINCRBY', K.stats, 'cancelling', -1)
    if letter ~= 'x' then
      erase(K, id, r, CANCELLED)
      return 'c', 'cancelled'
    end
  end
  if letter == 'x' then
    local retention = retention_of(r)
    if retention > 0 then
      release_unique(K, id, r)
      call('HDEL', K.error, id)
      call('ZADD', K.done, num(now + retention), id)
      -- Its record goes before its sender stops repeating (rule i).
      if retention < TOMB_MS then bury_tomb(K, id, DONE) end
    else
      local at = #over.ids + 1
      over.ids[at], over.records[at] = id, r
    end
    return 'o', 'done'
  elseif letter == 'c' then
    erase(K, id, r, DISCARDED)
    return 'o', 'discarded'
  elseif letter == 'b' then
    local code, text = string.match(rest, '^(%S+) (.*)$')
    bury(K, id, r, code, attempts_plus_one(r), text, run)
    return 'o', 'dead'
  end
  local free, attempts, due = be2_at(r, 5), be2_at(r, 7), be6_at(r, 17)
  local count = 'returned'
  if letter == 'r' then
    local delay, text = string.match(rest, '^(%d+) (.*)$')
    attempts, due, count = attempts_plus_one(r), due_in(delay), 'retried'
    call('HSET', K.error, id, note('retry', attempts, text))
  elseif letter == 's' then
    free, due, count = math.min(free + 1, 65535), due_in(rest), 'snoozed'
  end
  call('HSET', K.jobs, id, rewrite(r, byte(r, 4), free, attempts, due, run))
  call('ZADD', K.due[priority_of(r) + 1], num(due), id)
  if not armed.due or due < armed.due then armed.due = due end
  return 'o', count
end

-- The verdicts as lists: members, the byte of each letter, the whole text where there is more than a letter.
local function read_verdicts(first)
  local members, letters, texts, n = {}, {}, {}, 0
  for i = first, #ARGV do
    local verdict = ARGV[i]
    local letter = byte(verdict, 1)
    if letter == 68 or letter == 84 then
      if (#verdict - 1) % 22 ~= 0 then return nil, 'BADARG a list of members is malformed' end
      for at = 2, #verdict, 22 do
        n = n + 1
        members[n], letters[n] = sub(verdict, at, at + 21), letter
      end
    else
      local shape = SHAPE[sub(verdict, 1, 1)]
      n = n + 1
      if not shape or #verdict < 23 or not string.find(sub(verdict, 24), shape) then
        return nil, 'BADARG verdict ' .. n .. ' is malformed'
      end
      members[n], letters[n], texts[n] = sub(verdict, 2, 23), letter, verdict
    end
  end
  if n > 1000 then return nil, 'BADARG at most 1000 verdicts' end
  return members, letters, texts
end

-- Nothing but successes, all of them held: no record is looked at. Answers nil where that isn't so, and has done nothing.
local function settle_plain(K, verdict)
  local members, ids, n = {}, {}, (#verdict - 1) / 22
  if n ~= floor(n) or n > 1000 then return nil end
  for i = 1, n do
    local member = sub(verdict, 22 * i - 20, 22 * i + 1)
    members[i], ids[i] = member, sub(member, 1, 16)
  end
  local is_held = call('SMISMEMBER', K.held, unpack(members))
  for i = 1, n do
    if is_held[i] == 0 then return nil end
  end
  if number(call('HGET', K.stats, 'cancelling'), 0) > 0 then return nil end
  call('HLEN', K.jobs)
  call('ZCARD', K.tombs)
  call('ZCARD', K.done)
  local gone = call('SREM', K.held, unpack(members))
  call('HDEL', K.jobs, unpack(ids))
  if byte(verdict, 1) == 84 then
    local tombs, tomb = {}, num(now * 8 + DONE)
    for i = 1, n do tombs[2 * i - 1], tombs[2 * i] = tomb, ids[i] end
    call('ZADD', K.tombs, unpack(tombs))
  end
  call('HINCRBY', K.stats, 'done', gone)
  trim_tombs(K, 2 * n)
  trim_done(K, 100)
  if gone == n then return string.rep('o', n) end
  local seen, replies = {}, {}
  for i = 1, n do
    replies[i] = seen[members[i]] and 'n' or 'o'
    seen[members[i]] = true
  end
  return table.concat(replies)
end

local function settle(K, first)
  if first > #ARGV then return '' end
  local letter = byte(ARGV[first], 1)
  if first == #ARGV and (letter == 68 or letter == 84) and #ARGV[first] > 1 then
    local replies = settle_plain(K, ARGV[first])
    if replies then return replies end
  end
  local members, letters, texts = read_verdicts(first)
  if not members then return nil, letters end
  if #members == 0 then return '' end
  local is_held = call('SMISMEMBER', K.held, unpack(members))
  local looks_up = number(call('HGET', K.stats, 'cancelling'), 0) > 0
  -- What must be looked up is read before anything is written; `seen` makes a second verdict for one run stale.
  local replies, counts, armed = {}, {}, {}
  local seen, wanted, plain, tombs, leaving, gone = {}, {}, {}, {}, {}, 0
  local tomb = num(now * 8 + DONE)
  for i = 1, #members do
    local member, letter = members[i], letters[i]
    if is_held[i] == 0 or seen[member] then
      replies[i] = 'n'
    else
      seen[member] = true
      gone = gone + 1
      leaving[gone] = member
      if not looks_up and (letter == 68 or letter == 84 or letter == 100 or letter == 116) then
        local id = sub(member, 1, 16)
        plain[#plain + 1] = id
        if letter == 84 or letter == 116 then
          local at = #tombs
          tombs[at + 1], tombs[at + 2] = tomb, id
        end
        replies[i] = 'o'
      else
        wanted[#wanted + 1] = i
      end
    end
  end
  if gone == 0 then return table.concat(replies) end
  local records = {}
  if #wanted > 0 then
    local ids = {}
    for w, i in ipairs(wanted) do ids[w] = sub(members[i], 1, 16) end
    records = call('HMGET', K.jobs, unpack(ids))
    check_ends(K)
    for p = 1, 10 do call('ZCARD', K.due[p]) end
  else
    call('HLEN', K.jobs)
    call('ZCARD', K.tombs)
    call('ZCARD', K.done)
  end
  call('SREM', K.held, unpack(leaving))
  if #plain > 0 then
    call('HDEL', K.jobs, unpack(plain))
    counts.done = #plain
  end
  if #tombs > 0 then call('ZADD', K.tombs, unpack(tombs)) end
  local over = { ids = {}, records = {} }
  for w, i in ipairs(wanted) do
    local verdict, r = texts[i] or 'x', records[w]
    local letter = sub(verdict, 1, 1)
    if letter == 'd' or letter == 't' then letter = 'x' end
    local count
    if not r or not well_formed(r) then
      replies[i] = 'm'
      quarantine(K, sub(members[i], 1, 16), r)
    else
      local run = be6_at(members[i], 17)
      replies[i], count = settle_one(K, letter, sub(members[i], 1, 16), r, run, sub(verdict, 24), armed, over)
    end
    if count then counts[count] = (counts[count] or 0) + 1 end
  end
  if #over.ids > 0 then erase_all(K, over.ids, over.records, DONE) end
  for name, n in pairs(counts) do call('HINCRBY', K.stats, name, n) end
  trim_tombs(K, 2 * #members)
  trim_done(K, 100)
  if armed.due then arm(K, armed.due) end
  return table.concat(replies)
end

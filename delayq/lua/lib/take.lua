-- lib/take: moves due jobs to the session. K needs all keys of the shard.

-- Records up to this size can be read 256 at a time without a look at their sizes; enqueue notes larger ones.
local SMALL, SMALL_COUNT = 16384, 256

-- Reads the first due ids of one priority with their records, within what is left of count and bytes.
-- Answers ids, records, how many records were read, and what is left of the bytes.
local function read_due(K, key, count, bytes, small)
  local ids = call('ZRANGEBYSCORE', key, '-inf', num(now), 'LIMIT', 0, count)
  if #ids == 0 then return ids, {}, 0, bytes end
  if small and #ids <= SMALL_COUNT then return ids, call('HMGET', K.jobs, unpack(ids)), #ids, bytes end
  local records, n, first = {}, 0, 1
  while first <= #ids and bytes > 0 do
    -- Small steps: a step is copied whole before it can be counted.
    local last = math.min(#ids, first + 9)
    for i, r in ipairs(call('HMGET', K.jobs, unpack(ids, first, last))) do
      if bytes <= 0 then break end
      n = first + i - 1
      records[n] = r
      bytes = bytes - (r and #r or 0)
    end
    first = last + 1
  end
  return ids, records, n, bytes
end

-- Answers: ids and records of the jobs taken, whether more may be due, the id of a job that wants to run alone.
-- All is read and decided first, then written: what is wrong with a key shows while nothing has changed.
local function take(K, priorities, count, bytes, small, in_company)
  local free = not in_company and call('SCARD', K.held) == 0
  local taken, records_taken, held, leaving, deferred, expired, unfit = {}, {}, {}, {}, {}, {}, {}
  local scanned, more = 0, false
  for p in string.gmatch(priorities, '%d') do
    local key, digit = K.due[p + 1], byte(p)
    if not more and call('ZCARD', key) > 0 then
      local ids, records, n, left = read_due(K, key, count - scanned, bytes, small)
      local full, plain = n < #ids, true
      bytes = left
      -- Nearly every job: nothing to look at but a few bytes, and the lists are taken as they came.
      for i = 1, n do
        local r = records[i]
        if not r or #ids[i] ~= 16 then
          plain = false
          break
        end
        local format, job_priority, _, crashes = byte(r, 1, 4)
        -- The header's last byte before any other: a record that has one has them all.
        if byte(r, HEAD) ~= 0 or format ~= 1 or job_priority ~= digit or crashes >= SOLO_AT then
          plain = false
          break
        end
      end
      if plain and #taken == 0 then
        if n == #ids then
          taken, records_taken = ids, records
        else
          for i = 1, n do taken[i], records_taken[i] = ids[i], records[i] end
        end
      else
        for i = 1, n do
          local id, r = ids[i], records[i]
          if not r or #id ~= 16 or not well_formed(r) then
            unfit[#unfit + 1] = { id, r }
          elseif expires_of(r) > 0 and expires_of(r) <= now then
            expired[#expired + 1] = { id, r }
          elseif byte(r, 4) < SOLO_AT then
            local at = #taken + 1
            taken[at], records_taken[at] = id, r
          elseif free and #taken == 0 then
            taken, records_taken, full, n = { id }, { r }, true, i
            break
          else
            deferred[#deferred + 1] = { key, id }
          end
        end
      end
      leaving[#leaving + 1] = { key, n }
      scanned = scanned + n
      -- Full means that as many were scanned as asked for, not that as many came out (rule n).
      more = full or scanned >= count or bytes <= 0
    end
  end
  if #unfit + #expired > 0 then check_ends(K) end
  for i = 1, #taken do held[i] = taken[i] .. run_given(records_taken[i]) end
  if #held > 0 then call('SADD', K.held, unpack(held)) end
  -- The ids are the first of each set by rank, so they leave by rank.
  for _, l in ipairs(leaving) do
    if l[2] > 0 then call('ZREMRANGEBYRANK', l[1], 0, l[2] - 1) end
  end
  local solo = ''
  for _, d in ipairs(deferred) do
    -- Out of the others' way for a second, while this session empties itself for it.
    call('ZADD', d[1], num(now + 1000), d[2])
    solo = d[2]
  end
  for _, u in ipairs(unfit) do quarantine(K, u[1], u[2]) end
  if #expired > 0 then
    local ids, records = {}, {}
    for i, e in ipairs(expired) do ids[i], records[i] = e[1], e[2] end
    erase_all(K, ids, records, EXPIRED)
    call('HINCRBY', K.stats, 'expired', #expired)
    trim_tombs(K, 2 * #expired)
  end
  return taken, records_taken, more, solo
end

-- Takes one job by id for a session that holds nothing. It was due when its id was told; by now it may have been
-- put off, or be too late. Its place in the due set doesn't count: that was moved to keep it out of others' way.
local function take_alone(K, id)
  local r = call('HGET', K.jobs, id)
  if not r or not well_formed(r) or call('SCARD', K.held) > 0 then return {}, {} end
  local key, expires = K.due[priority_of(r) + 1], expires_of(r)
  if not call('ZSCORE', key, id) or byte(r, 4) < SOLO_AT then return {}, {} end
  if be6_at(r, 17) > now or (expires > 0 and expires <= now) then return {}, {} end
  call('ZREM', key, id)
  call('SADD', K.held, id .. run_given(r))
  return { id }, { r }
end

-- The claim, and who watches the clock after it, in one step. `timer` is the due time that the caller watches for
-- (or took a marker of), 0 for none; `in_company`, whether its worker runs something for another session. Answers
-- { code, now_us, wait_us, timer, more, solo, settled, ids, records }.
local function claim(K, count, bytes, timer, alone, settled, in_company)
  local s = call('HMGET', K.stats, 'paused', 'timer_at', 'priorities', 'large')
  local timer_at, priorities = number(s[2], 0), s[3] or ALL_PRIORITIES
  if s[1] then
    call('HDEL', K.stats, 'timer_at')
    return { 'PAUSED', now_us, -1, 0, 0, '', settled, '', {} }
  end
  local taken, records, more, solo
  if alone ~= '' then
    taken, records = take_alone(K, alone)
    more, solo = true, ''
  else
    -- Where `stats` was lost, nothing is known of sizes either.
    taken, records, more, solo = take(K, priorities, count, bytes, s[3] and not s[4], in_company)
  end
  local head, wait_us, watched = head_due(K, priorities), -1, 0
  if more or not head then
    -- Full: the next idle worker takes it from here.
    pass_on(K, head)
  elseif timer_at == timer or timer_at <= now or head < timer_at then
    call('HSET', K.stats, 'timer_at', num(head))
    wait_us, watched = math.max(head * 1000 - now_us, 0), head
  end
  -- The records go out as they came: a string of them all would be copied and hashed byte by byte.
  return { 'OK', now_us, wait_us, watched, (more and head) and 1 or 0, solo, settled, table.concat(taken), records }
end

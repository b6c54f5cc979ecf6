-- PURPOSE  Sends dead letters to work again, with all their attempts.
-- STATES   dead -> due
-- USES     base record arm ends shard
-- KEYS     as in open.lua
-- ARGV     1.. ids, 16 bytes each, at most 500
-- RETURNS  {'OK', a letter an id}: o waits again · n no dead letter · u its unique key is taken · m its record is gone or unreadable
-- COST     O(n log n)
if #ARGV > 500 then return redis.error_reply('BADARG at most 500 ids') end
if #ARGV == 0 then return { 'OK', '' } end
local is_dead = call('ZMSCORE', K.dead, unpack(ARGV))
local records = call('HMGET', K.jobs, unpack(ARGV))
check_ends(K)
for p = 1, 10 do call('ZCARD', K.due[p]) end
call('ZCARD', K.wake)
call('HLEN', K.stats)

call('ZREM', K.dead, '') -- removes nothing: at maxmemory old work must get through (rule t)
local due, letters, seen, redriven = math.ceil(now_us / 1000), {}, {}, 0
for i, id in ipairs(ARGV) do
  local r = records[i]
  if not is_dead[i] or seen[id] then
    letters[i] = 'n'
  elseif not r or not well_formed(r) then
    letters[i] = 'm'
  else
    seen[id] = true
    local key = unique_of(r)
    local entry = key and call('HGET', K.unique, key)
    local owner = entry and sub(entry, 1, 16)
    if owner and owner ~= id and call('HEXISTS', K.jobs, owner) == 1 then
      letters[i] = 'u'
    else
      if key then call('HSET', K.unique, key, id .. be6(0)) end
      -- Its attempts begin anew; what it did to its workers is remembered. An expiry is over: a person wants it to run.
      local again = rewrite(r, byte(r, 4), be2_at(r, 5), 0, due)
      if expires_of(again) > 0 then again = sub(again, 1, HEAD) .. be6(0) .. sub(again, HEAD + 7) end
      call('HSET', K.jobs, id, again)
      call('ZADD', K.due[priority_of(r) + 1], num(due), id)
      call('ZREM', K.dead, id)
      call('HDEL', K.error, id)
      letters[i] = 'o'
      redriven = redriven + 1
    end
  end
end
if redriven > 0 then
  call('HINCRBY', K.stats, 'redriven', redriven)
  arm(K, due)
end
return { 'OK', table.concat(letters) }

-- PURPOSE  After a call of unknown outcome: hands back what the session holds without knowing it.
-- STATES   running -> due | none
-- USES     base record arm ends fence shard
-- KEYS     as in open.lua
-- ARGV     1 session, 16 bytes · 2 seq, rising · 3.. the members (id, 16 bytes, and run, 6) that the worker knows it holds
-- RETURNS  {'OK', more, member, ...}: more is 1 if the call must be repeated; then known members that are not held (any more)
--          {'LOST'} · {'STALE'}
-- COST     O(held + known); hands back at most 500 a call
local session, seq = ARGV[1], tonumber(ARGV[2])
local refused = fence(K, session, seq)
if refused then return { refused } end

local known, ids, strangers = {}, {}, {}
for i = 3, #ARGV do known[ARGV[i]] = true end
local more, held = 0, {}
for _, member in ipairs(call('SMEMBERS', K.held)) do
  held[member] = true
  if not known[member] then
    if #strangers == 500 then
      more = 1
    else
      strangers[#strangers + 1] = member
      ids[#ids + 1] = sub(member, 1, 16)
    end
  end
end
local records = #ids > 0 and call('HMGET', K.jobs, unpack(ids)) or {}
check_ends(K)
for p = 1, 10 do call('ZCARD', K.due[p]) end
call('ZCARD', K.wake)

call('SREM', K.held, '') -- removes nothing: at maxmemory old work must get through (rule t)
call('HSET', K.stats, 'seq:' .. session, ARGV[2])
if #strangers > 0 then call('SREM', K.held, unpack(strangers)) end
local head
local runs = runs_held(strangers, ids, records)
for i, id in ipairs(ids) do
  local r, run = records[i], runs[id]
  runs[id] = nil
  if not run then
    quarantine(K, id, r)
  elseif cancel_waits(r) then
    call('HINCRBY', K.stats, 'cancelling', -1)
    call('HINCRBY', K.stats, 'cancelled', 1)
    erase(K, id, r, CANCELLED)
    trim_tombs(K, 2)
  else
    local due = be6_at(r, 17)
    call('HSET', K.jobs, id, rewrite(r, byte(r, 4), be2_at(r, 5), be2_at(r, 7), due, run))
    call('ZADD', K.due[priority_of(r) + 1], num(due), id)
    if not head or due < head then head = due end
  end
end
if head then arm(K, head) end
local reply = { 'OK', more }
for i = 3, #ARGV do
  if not held[ARGV[i]] then reply[#reply + 1] = ARGV[i] end
end
return reply

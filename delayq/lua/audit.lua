-- PURPOSE  Looks, a page at a time, for records that are in no place of jobs, or for entries of one place that have no record.
-- STATES   none
-- USES     base orphan shard
-- KEYS     as in open.lua, then 21.. held:<session>, one for each session of ARGV
-- ARGV     1 what to look through: "records", or a place: "0" to "9" the due set of that priority, "dead", "done"
--          2 cursor: "0" for the first page, then what the page before answered · 3 how many at most, 1 to 500
--          4 how much sessions may hold for it to be looked through, jobs · 5.. all sessions of the shard, 16 bytes each
-- RETURNS  {'OK', cursor, how many were looked at, id, ...}: cursor "0" after the last page; the ids of what has no place, or no record
--          {'AGAIN'}: the sessions are others by now · {'MANY'}: they hold more than that; nothing was looked at
-- COST     O(page log n + held); a page is what HSCAN makes of ARGV 3: all of a small hash, some more of a large one; at most 10 are
--          asked for where large records may be
local what, cursor, count, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local FIRST = 5
if not (count and count >= 1 and count <= 500 and most) or #KEYS ~= 20 + #ARGV - FIRST + 1 then
  return redis.error_reply('BADARG 1 to 500 at a time, and a held set for each session')
end

if what ~= 'records' then
  local key, start = K.due[(tonumber(what) or -1) + 1], tonumber(cursor)
  if what == 'dead' then key = K.dead elseif what == 'done' then key = K.done end
  if not key or not start or start < 0 then return redis.error_reply('BADARG no such place, or no cursor of it') end
  local ids = call('ZRANGE', key, num(start), num(start + count - 1))
  local reply = { 'OK', #ids == count and num(start + count) or '0', #ids }
  for _, id in ipairs(ids) do
    if call('HEXISTS', K.jobs, id) == 0 then reply[#reply + 1] = id end
  end
  return reply
end

if sessions_differ(K, FIRST) then return { 'AGAIN' } end
-- HSCAN brings the records too: where large ones may be, and where nothing is known of that, few are asked for.
local s = call('HMGET', K.stats, 'large', 'schema')
if s[1] or not s[2] then count = math.min(count, 10) end
local page = call('HSCAN', K.jobs, cursor, 'COUNT', num(count))
local ids = {}
for i = 1, #page[2], 2 do ids[#ids + 1] = page[2][i] end
local orphans = orphans_among(K, ids, most)
if not orphans then return { 'MANY' } end
local reply = { 'OK', page[1], #ids }
for i, id in ipairs(orphans) do reply[3 + i] = id end
return reply

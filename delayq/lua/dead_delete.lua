-- PURPOSE  Throws dead letters away.
-- STATES   dead -> none
-- USES     base record ends shard
-- KEYS     as in open.lua
-- ARGV     1.. ids, at most 500
-- RETURNS  {'OK', a letter an id}: o deleted, by this call or the same one before · n no dead letter
-- COST     O(n log n)
if #ARGV > 500 then return redis.error_reply('BADARG at most 500 ids') end
if #ARGV == 0 then return { 'OK', '' } end
local is_dead = call('ZMSCORE', K.dead, unpack(ARGV))
local ended = call('ZMSCORE', K.tombs, unpack(ARGV))
call('HLEN', K.jobs)
call('HLEN', K.stats)
check_ends(K)

call('ZREM', K.dead, '') -- removes nothing: at maxmemory old work must get through (rule t)
local letters, deleted = {}, 0
for i, id in ipairs(ARGV) do
  if is_dead[i] and call('ZREM', K.dead, id) == 1 then
    call('HDEL', K.jobs, id)
    call('HDEL', K.error, id)
    bury_tomb(K, id, DELETED)
    letters[i], deleted = 'o', deleted + 1
  else
    letters[i] = (is_dead[i] or ended_as(ended[i]) == DELETED) and 'o' or 'n'
  end
end
if deleted > 0 then call('HINCRBY', K.stats, 'deleted', deleted) end
trim_tombs(K, 2 * #ARGV)
return { 'OK', table.concat(letters) }

-- PURPOSE  Opens a worker's session on this shard: from now on it may hold jobs.
-- STATES   none
-- USES     base arm shard
-- KEYS     1 jobs HASH · 2 stats HASH · 3 wake ZSET · 4 sessions ZSET · 5 held:<session> SET · 6 dead ZSET · 7 error HASH
--          8 done ZSET · 9 unique HASH · 10 tombs ZSET · 11-20 due:0 to due:9 ZSET
-- ARGV     1 session, 16 random bytes, never used before · 2 lease, ms · 3 schema, number · 4 shards, number
-- RETURNS  {'OK'} · {'EXISTS'}: the id was used before · {'SCHEMA', stored} · {'SHARDS', stored}
-- COST     O(log sessions)
local session, lease_ms, schema, shards = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local s = call('HMGET', K.stats, 'schema', 'shards', 'lease_max', 'priorities')
if s[1] and s[1] ~= schema then return { 'SCHEMA', s[1] } end
if s[2] and s[2] ~= shards then return { 'SHARDS', s[2] } end
if call('ZSCORE', K.sessions, session) or call('SCARD', K.held) > 0 then return { 'EXISTS' } end

call('ZREM', K.sessions, '') -- removes nothing: at maxmemory old work must get through (rule t)
if not s[1] then call('HSET', K.stats, 'schema', schema, 'shards', shards) end
if lease_ms > number(s[3], 0) then call('HSET', K.stats, 'lease_max', ARGV[2]) end
call('ZADD', K.sessions, num(now + lease_ms), session)
call('HSET', K.stats, 'seq:' .. session, '0')
return { 'OK' }

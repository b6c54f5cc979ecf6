-- PURPOSE  Tries each command that the work of jobs needs, on keys of its own, and leaves nothing: a right that is missing shows.
--          What it writes is passed on to replicas, each time: whoever waits for them after it has waited for all before it.
-- STATES   none
-- USES     base
-- KEYS     1 probe:hash HASH · 2 probe:set SET · 3 probe:sorted ZSET; none of them is there before or after
-- ARGV     none
-- RETURNS  {'OK'}; an error where one of them is refused
-- COST     O(1)

-- What removes comes first: nothing is written that might not be removed again.
call('HDEL', KEYS[1], 'f')
call('SREM', KEYS[2], 'm')
call('ZREM', KEYS[3], 'm')
call('ZREMRANGEBYRANK', KEYS[3], 0, 0)

call('HEXISTS', KEYS[1], 'f')
call('HGET', KEYS[1], 'f')
call('HLEN', KEYS[1])
call('HMGET', KEYS[1], 'f')
call('SCARD', KEYS[2])
call('SMEMBERS', KEYS[2])
call('SMISMEMBER', KEYS[2], 'm')
call('SRANDMEMBER', KEYS[2], 1)
call('ZCARD', KEYS[3])
call('ZCOUNT', KEYS[3], '-inf', '+inf')
call('ZMSCORE', KEYS[3], 'm')
call('ZRANGE', KEYS[3], 0, 0)
call('ZRANGEBYSCORE', KEYS[3], '-inf', '+inf')
call('ZRANK', KEYS[3], 'm')
call('ZREVRANGE', KEYS[3], 0, 0)
call('ZREVRANK', KEYS[3], 'm')
call('ZSCORE', KEYS[3], 'm')

call('HINCRBY', KEYS[1], 'f', 1)
call('HDEL', KEYS[1], 'f')
call('HSET', KEYS[1], 'f', '1')
call('HDEL', KEYS[1], 'f')
call('SADD', KEYS[2], 'm')
call('SREM', KEYS[2], 'm')
call('ZADD', KEYS[3], '1', 'm')
call('ZREM', KEYS[3], 'm')
return { 'OK' }

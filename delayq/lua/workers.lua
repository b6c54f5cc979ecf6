-- PURPOSE  Shows sessions: how long their leases last, how much they hold, what their workers say of themselves.
-- STATES   none
-- USES     base shard
-- KEYS     as in open.lua, then 21.. held:<session>, one for each session of ARGV
-- ARGV     1.. sessions, 16 bytes each, 1 to 1,000
-- RETURNS  {'OK', now ms, lease until ms, held, report, ...}, three entries a session; -1 for one that is no more; the report is
--          '' where its worker gave none
-- COST     O(sessions)
if #ARGV < 1 or #ARGV > 1000 or #KEYS ~= #ARGV + 20 then return redis.error_reply('BADARG 1 to 1,000 sessions') end
local reply = { 'OK', now }
for i, session in ipairs(ARGV) do
  local at = #reply
  reply[at + 1] = tonumber(call('ZSCORE', K.sessions, session) or '-1')
  reply[at + 2] = call('SCARD', KEYS[20 + i])
  reply[at + 3] = call('HGET', K.stats, 'worker:' .. session) or ''
end
return reply

-- lib/fence: is this session still one, and is this call its newest (rules a and c). K needs sessions, stats.
local function fence(K, session, seq)
  local expiry = call('ZSCORE', K.sessions, session)
  if not expiry or tonumber(expiry) <= 0 then return 'LOST' end
  if seq <= number(call('HGET', K.stats, 'seq:' .. session), 0) then return 'STALE' end
end

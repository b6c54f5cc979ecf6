-- PURPOSE  Says where a job is and shows it.
-- STATES   none
-- USES     base record ends shard
-- KEYS     as in open.lua
-- ARGV     1 id, 16 bytes
-- RETURNS  {state, at ms, record, note}: DUE at its due time · RUNNING at its due time · DEAD since · DONE until
--          {'ENDED', how}: within the last 15 s, as in lib/ends · {'NONE'}
-- COST     O(log n)
local id = ARGV[1]
local r = call('HGET', K.jobs, id)
if not r then
  local how = ended_as(call('ZSCORE', K.tombs, id))
  if not how then return { 'NONE' } end
  return { 'ENDED', how }
end
local noted = call('HGET', K.error, id) or ''
local dead = call('ZSCORE', K.dead, id)
if dead then return { 'DEAD', tonumber(dead), r, noted } end
local done = call('ZSCORE', K.done, id)
if done then return { 'DONE', tonumber(done), r, noted } end
if not well_formed(r) then return redis.error_reply('CORRUPT the record has no readable header') end
local due = call('ZSCORE', K.due[priority_of(r) + 1], id)
if due then return { 'DUE', tonumber(due), r, noted } end
return { 'RUNNING', be6_at(r, 17), r, noted }

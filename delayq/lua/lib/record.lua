-- lib/record: the record's header. Offsets are 1-based; all numbers are big-endian.
--   1      format, always 1            9-10   attempts allowed (65535: no limit)
--   2      priority, '0' to '9'        11-16  run number, the fencing token
--   3      1 when a cancel waits       17-22  due, ms
--   4      crashes                     23-28  enqueued at, ms
--   5-6    free returns                29     length of the extension that follows
--   7-8    attempts spent              extension: expires at, ms (6) · retention, ms (6) · unique key
-- Then the envelope, which no script looks into.
local HEAD = 29
-- The last ms of the year 9999; a score holds it exactly, six bytes too.
local DUE_MAX = 253402300799999
-- A job that was there in this many crashes runs alone; a crash of it alone buries it (rule p).
local SOLO_AT = 2

local function be2_at(r, i) local a, b = byte(r, i, i + 1) return a * 256 + b end

local function well_formed(r)
  if #r < HEAD or byte(r, 1) ~= 1 then return false end
  local priority, ext = byte(r, 2), byte(r, HEAD)
  return priority >= 48 and priority <= 57 and #r >= HEAD + ext and (ext == 0 or ext >= 12)
end

local function priority_of(r) return byte(r, 2) - 48 end
local function cancel_waits(r) return byte(r, 3) == 1 end
local function expires_of(r) if byte(r, HEAD) == 0 then return 0 end return be6_at(r, HEAD + 1) end
local function retention_of(r) if byte(r, HEAD) == 0 then return 0 end return be6_at(r, HEAD + 7) end
local function unique_of(r)
  local ext = byte(r, HEAD)
  if ext <= 12 then return nil end
  return sub(r, HEAD + 13, HEAD + ext)
end

-- A run number never comes back for an id, not even after a rollback: the clock is its floor (rule d). A claim writes
-- nothing into the record: the number of the run that it gives out is the record's or the clock, whichever is higher.
local now_run = be6(now)
local function run_given(r)
  local a, b, c, d, e, f = byte(r, 11, 16)
  if ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f > now then return sub(r, 11, 16) end
  return now_run
end

-- The runs that held members name, by job: the highest where a foreign hand put in several. What is no run of its record is
-- left out.
local function runs_held(members, ids, records)
  local runs = {}
  for i, member in ipairs(members) do
    local id, r = ids[i], records[i]
    if #member == 22 and r and well_formed(r) then
      local run = be6_at(member, 17)
      if run >= be6_at(r, 11) and run >= (runs[id] or 0) then runs[id] = run end
    end
  end
  return runs
end

-- What six bytes hold. Only a foreign hand writes it: then numbers of runs have come to their end, and repeat.
local RUN_MAX = 281474976710655
-- The first number after the record's, and after that of the run that ends, if one does.
local function next_run(r, run) return math.min(math.max(be6_at(r, 11) + 1, (run or 0) + 1, now), RUN_MAX) end

local function attempts_plus_one(r) return math.min(be2_at(r, 7) + 1, 65534) end

-- The record as it waits again: a new run number, and what changes with it.
local function rewrite(r, crashes, free, attempts, due, run)
  return sub(r, 1, 2) .. char(0, crashes) .. be2(free) .. be2(attempts) .. sub(r, 9, 10)
    .. be6(next_run(r, run)) .. be6(due) .. sub(r, 23)
end

-- lib/base: the clock, read once, and whole numbers as text, from text and as bytes.
local call, floor, byte, char, sub = redis.call, math.floor, string.byte, string.char, string.sub
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
-- Rounded down: what is due by `now` is due whatever the fraction (rule h).
local now = floor(now_us / 1000)

-- tostring and `..` keep 14 digits of a number; scores and instants need all of theirs.
local function num(n) return string.format('%.0f', n) end

-- A stored clock or counter. What a foreign hand made of it counts as missing, so that it heals instead of stopping scripts midway.
local function number(text, missing) return tonumber(text or nil) or missing end

local function be2(n) return char(floor(n / 256), n % 256) end

local function be6(n)
  local high, low = floor(n / 16777216), n % 16777216
  return char(floor(high / 65536), floor(high / 256) % 256, high % 256,
    floor(low / 65536), floor(low / 256) % 256, low % 256)
end

local function be6_at(s, i)
  local a, b, c, d, e, f = byte(s, i, i + 5)
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end

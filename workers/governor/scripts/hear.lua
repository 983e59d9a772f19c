-- What a provider's answer said about its limits, told to everybody.
--
-- KEYS  1  state (see acquire.lua)
-- ARGV  1  block µs from now; 0 for none   2  1 to halve the adaptive concurrency   3  configured places; 0: no limit
--       4  calm µs: cuts that follow the last one sooner answer the same overload, and count once
--       5… per dimension (requests, input, output): µs per unit to keep to, for how many µs; 0, 0 for no news
-- A block stops the key's time: nobody starts before its end, and the starts that are already reserved move back by
-- as much as it lasts, so that order and spacing survive.
-- Returns paused: µs by which reserved starts have been put off in total.
local IDLE_MS = 90000000
local MOVING = { 'start:0', 'start:1', 'arrival:requests', 'arrival:input', 'arrival:output' }
local DIMENSIONS = { 'requests', 'input', 'output' }
local state = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local length, places, calm = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])

local function put(field, value)
  redis.call('HSET', state, field, string.format('%.0f', value))
end

local stored = redis.call('HMGET', state, 'blocked', 'cap', 'cut', unpack(MOVING))
local added = now + length - math.max(now, tonumber(stored[1] or 0))
if length > 0 and added > 0 then
  put('blocked', now + length)
  for i, field in ipairs(MOVING) do
    local at = tonumber(stored[3 + i] or 0)
    if at > now then
      put(field, at + added)
    end
  end
  redis.call('HINCRBY', state, 'paused', string.format('%.0f', added))
end

if ARGV[2] == '1' and places > 0 and now - tonumber(stored[3] or 0) >= calm then
  local cap = math.min(places, tonumber(stored[2] or places))
  put('cap', math.max(1, math.floor(cap / 2)))
  put('cut', now)
  put('successes', 0)
end

for i, dimension in ipairs(DIMENSIONS) do
  local lasts = tonumber(ARGV[4 + 2 * i])
  if lasts > 0 then
    -- As it came: µs per token may be a fraction.
    redis.call('HSET', state, 'pace:' .. dimension, ARGV[3 + 2 * i])
    put('until:' .. dimension, now + lasts)
  end
end
redis.call('PEXPIRE', state, IDLE_MS)
return tonumber(redis.call('HGET', state, 'paused') or 0)

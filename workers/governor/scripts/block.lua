-- Stops the bucket's time for a while: nobody starts before its end, and the starts that are already reserved
-- move back by as much as it lasts, so that order and spacing survive the block.
--
-- KEYS  1  blocked   2  paused   3… the rate buckets   (see acquire.lua)
-- ARGV  1  µs from now
-- Returns paused: µs by which reserved starts have been put off in total.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local length = tonumber(ARGV[1])
local stands_until = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0))
local added = now + length - stands_until
if added <= 0 then
  return tonumber(redis.call('GET', KEYS[2]) or 0)
end
local length_ms = math.ceil(length / 1000)
redis.call('SET', KEYS[1], string.format('%.0f', now + length), 'PX', length_ms + 60000)
for bucket = 3, #KEYS do
  local arrival = tonumber(redis.call('GET', KEYS[bucket]) or 0)
  if arrival > now then
    local moved = arrival + added
    local spent_ms = math.floor((moved - now) / 1000)
    redis.call('SET', KEYS[bucket], string.format('%.0f', moved), 'PX', spent_ms + 60000)
  end
end
local paused = redis.call('INCRBY', KEYS[2], string.format('%.0f', added))
redis.call('PEXPIRE', KEYS[2], length_ms + 3600000)
return paused

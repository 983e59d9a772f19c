-- Answers one question: may this ticket start, and when? Everything at once or nothing, in order of arrival.
--
-- KEYS  1  leases   ZSET    ticket -> µs at which its lease ends unless it is renewed
--       2  line     ZSET    ticket -> place in order of arrival (only differences matter)
--       3  heard    ZSET    ticket -> µs at which its owner last spoke for it
--       4  blocked  string  µs before which nobody starts
--       5  paused   string  µs by which blocks have put off reserved starts, in total
--       6… one string per rate bucket: its theoretical arrival time in µs (GCRA)
-- ARGV  1  ticket
--       2  places: how many calls may run at once; 0 for no limit
--       3  lease µs   4  silence µs after which a waiter is forgotten   5  longest wait µs
--       6… per rate bucket: cost in units, µs per unit, burst in µs
-- Returns {verdict, wait µs, tickets ahead, places left, paused µs}.
--
-- Times are microseconds of this server's clock. They stay below 2^53, so a Lua number holds them exactly, but
-- Lua prints them in scientific notation: whatever is stored goes through `%.0f`.

local GRANTED, IN_LINE, REFUSED = 1, 0, -1
local IDLE_MS = 3600000 -- an hour after the last word a bucket leaves no key behind

local leases, line, heard = KEYS[1], KEYS[2], KEYS[3]
local ticket, places = ARGV[1], tonumber(ARGV[2])
local lease_us, silence_us, longest_us = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function whole(us)
  return string.format('%.0f', us)
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local may_run, ahead, running, standing = true, 0, 0, false
if places > 0 then
  redis.call('ZREMRANGEBYSCORE', leases, '-inf', whole(now))
  redis.call('ZADD', heard, 'XX', whole(now), ticket)
  for _, silent in ipairs(redis.call('ZRANGEBYSCORE', heard, '-inf', whole(now - silence_us))) do
    redis.call('ZREM', line, silent)
    redis.call('ZREM', heard, silent)
  end
  running = redis.call('ZCARD', leases)
  if redis.call('ZSCORE', leases, ticket) then
    -- The same question again, because the first answer was lost on its way: it must not stand behind itself.
    running = running - 1
  else
    local rank = redis.call('ZRANK', line, ticket)
    standing = rank and true or false
    ahead = rank or redis.call('ZCARD', line)
    -- A free place is not enough: whoever came earlier starts earlier, even if slow to ask.
    may_run = ahead == 0 and running < places
  end
end

local stored = redis.call('MGET', unpack(KEYS, 4))
local blocked, paused = tonumber(stored[1] or 0), tonumber(stored[2] or 0)
local base = math.max(now, blocked)
local start, arrivals = base, {}
for bucket = 6, #KEYS do
  local first = 3 * bucket - 12
  local cost, unit_us, burst_us = tonumber(ARGV[first]), tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
  -- For somebody in line this is the soonest possible start, taking those ahead to cost the same.
  local arrival = math.max(tonumber(stored[bucket - 3] or 0), base) + (ahead + 1) * cost * unit_us
  start = math.max(start, arrival - burst_us)
  arrivals[bucket] = arrival
end
local wait = start - now

if wait > longest_us then
  if places > 0 then
    redis.call('ZREM', leases, ticket)
    redis.call('ZREM', line, ticket)
    redis.call('ZREM', heard, ticket)
  end
  return { REFUSED, wait, ahead, 0, paused }
end

if not may_run then
  if not standing then
    local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')
    redis.call('ZADD', line, (tonumber(last[2] or 0)) + 1, ticket)
    redis.call('ZADD', heard, whole(now), ticket)
    redis.call('PEXPIRE', line, IDLE_MS)
    redis.call('PEXPIRE', heard, IDLE_MS)
  end
  return { IN_LINE, wait, ahead, 0, paused }
end

for bucket = 6, #KEYS do
  local spent_ms = math.floor((arrivals[bucket] - now) / 1000)
  redis.call('SET', KEYS[bucket], whole(arrivals[bucket]), 'PX', spent_ms + 60000)
end
if places > 0 then
  redis.call('ZADD', leases, whole(now + lease_us), ticket)
  redis.call('PEXPIRE', leases, IDLE_MS)
  if standing then
    redis.call('ZREM', line, ticket)
    redis.call('ZREM', heard, ticket)
  end
end
return { GRANTED, wait, 0, math.max(0, places - running - 1), paused }

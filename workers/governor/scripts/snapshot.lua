-- One look at everything; changes nothing.
--
-- KEYS  as in acquire.lua: 1 state   2 leases   3 line:interactive   4 line:batch
-- Returns {running, interactive waiters, batch waiters, µs still blocked, adaptive concurrency (0: as configured),
--          requests booked for today, µs until the next request could start}.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local stored = redis.call('HMGET', KEYS[1], 'blocked', 'cap', 'day', 'today', 'arrival:requests', 'arrival:input',
  'arrival:output', 'start:0')
local function left(position)
  return math.max(0, tonumber(stored[position] or 0) - now)
end
local today = 0
if tonumber(stored[3] or 0) >= math.floor(now / 86400000000) then
  today = tonumber(stored[4] or 0)
end
return {
  redis.call('ZCOUNT', KEYS[2], string.format('(%.0f', now), '+inf'),
  redis.call('ZCARD', KEYS[3]),
  redis.call('ZCARD', KEYS[4]),
  left(1),
  tonumber(stored[2] or 0),
  today,
  math.max(left(1), left(5), left(6), left(7), left(8)),
}

-- Takes tickets out of everything and settles them: calls that ended, waiters that gave up. Unknown ones are fine.
--
-- KEYS  as in acquire.lua: 1 state   2 leases   3 line:interactive   4 line:batch   5 heard
--       6 wants   7 granted
-- ARGV  1  configured places; 0 for no limit
--       2… per ticket: ticket, 1 if it has a lease, 1 if its call succeeded, serial and µs of its request if that
--          is given back (else 0), day of its request if that is given back (else 0), µs to add to the arrival
--          times of input and output (negative: given back)
-- A ticket that was granted without its owner's knowledge gives everything back, whatever its owner says.
-- A settlement counts once: that of a leased call only while its lease stands, and a request comes back only to
-- the one that booked last. Earlier ones have gone by: nobody who holds a later start can be moved into them.
local FIELDS = 8
local state = KEYS[1]
local places = tonumber(ARGV[1])
local stored = redis.call('HMGET', state, 'serial', 'day', 'today', 'cap', 'successes',
  'arrival:requests', 'arrival:input', 'arrival:output')
local serial, day, today = tonumber(stored[1] or 0), tonumber(stored[2] or 0), tonumber(stored[3] or 0)
local cap, successes = tonumber(stored[4] or 0), tonumber(stored[5] or 0)
local requests, input, output = tonumber(stored[6] or 0), tonumber(stored[7] or 0), tonumber(stored[8] or 0)

for first = 2, #ARGV, FIELDS do
  local ticket = ARGV[first]
  local was_held = redis.call('ZREM', KEYS[2], ticket) == 1
  for line = 3, 5 do
    redis.call('ZREM', KEYS[line], ticket)
  end
  redis.call('HDEL', KEYS[6], ticket)
  local told = {}
  for i = 3, 7 do
    told[i] = tonumber(ARGV[first + i])
  end
  local unheard = redis.call('HGET', KEYS[7], ticket)
  if unheard then
    redis.call('HDEL', KEYS[7], ticket)
    local its_serial, its_day, its_request, its_input, its_output =
      string.match(unheard, '%S+ (%S+) (%S+) (%S+) (%S+) (%S+)')
    told = { [3] = tonumber(its_serial), [4] = tonumber(its_request), [5] = tonumber(its_day),
      [6] = -tonumber(its_input), [7] = -tonumber(its_output) }
  end
  if was_held or unheard or ARGV[first + 1] == '0' then
    successes = successes + tonumber(ARGV[first + 2])
    if told[3] > 0 and told[3] == serial then
      requests = requests - told[4]
      serial = serial - 1
    end
    if told[5] > 0 and told[5] == day then
      today = math.max(0, today - 1)
    end
    input = input + told[6]
    output = output + told[7]
  end
end

local settled = {}
local function keep(field, position, value)
  if tonumber(stored[position] or 0) ~= value then
    settled[#settled + 1] = field
    settled[#settled + 1] = string.format('%.0f', value)
  end
end
keep('serial', 1, serial)
keep('today', 3, today)
if cap > 0 then
  -- Additive increase: one more place for each round of successes, until the configured places are back.
  if successes >= cap then
    cap, successes = cap + 1, 0
  end
  if cap >= places then
    redis.call('HDEL', state, 'cap', 'successes')
  else
    keep('cap', 4, cap)
    keep('successes', 5, successes)
  end
end
keep('arrival:requests', 6, requests)
keep('arrival:input', 7, input)
keep('arrival:output', 8, output)
if #settled > 0 then
  redis.call('HSET', state, unpack(settled))
end
return 0

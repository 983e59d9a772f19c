-- Takes tickets out of everything and settles them: calls that ended, waiters that gave up. Unknown ones are fine.
--
-- KEYS  as in acquire.lua: 1 state   2 leases   3 line:interactive   4 line:batch   5 heard
-- ARGV  1  configured places; 0 for no limit
--       2… per ticket: ticket, 1 if it has a lease, 1 if its call succeeded, serial and µs of its request if that
--          is given back (else 0), day of its request if that is given back (else 0), µs to add to the arrival
--          times of input and output (negative: given back)
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
  if was_held or ARGV[first + 1] == '0' then
    local its_serial, its_day = tonumber(ARGV[first + 3]), tonumber(ARGV[first + 5])
    successes = successes + tonumber(ARGV[first + 2])
    if its_serial > 0 and its_serial == serial then
      requests = requests - tonumber(ARGV[first + 4])
      serial = serial - 1
    end
    if its_day > 0 and its_day == day then
      today = math.max(0, today - 1)
    end
    input = input + tonumber(ARGV[first + 6])
    output = output + tonumber(ARGV[first + 7])
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

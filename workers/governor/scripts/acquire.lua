-- Answers one question: may this ticket start, and when? Everything at once or nothing, in order of arrival.
-- Whoever asks also serves those who came before it in its lane: they find their grant when they ask next, so that
-- a line that winds through many processes moves on with every question and not at the pace of the slowest.
--
-- KEYS  1  state    HASH    the numbers listed below
--       2  leases   ZSET    ticket -> µs at which its lease ends unless it is renewed
--       3  line:interactive, 4  line:batch  ZSETs  ticket -> place in order of arrival (only differences matter)
--       5  heard    ZSET    ticket that waits or was granted unheard -> µs at which its owner last spoke for it
--       6  wants    HASH    ticket in line -> "input units, output units, µs of its latest start"
--       7  granted  HASH    ticket granted unheard -> "start less paused, serial, day, µs taken per dimension"
-- State: blocked              µs before which nobody starts
--        paused               µs by which blocks have put off reserved starts, in total
--        start:0, start:1     the latest start reserved in the interactive and in the batch lane
--        serial               number of the request that was booked last
--        day, today           a UTC day (days since 1970) and the requests booked to start in it
--        cap, successes, cut  adaptive concurrency while it is below the configured one; successes since it last
--                             grew; when it was last cut
--        arrival:D            theoretical arrival time of dimension D (GCRA); D is requests, input or output
--        pace:D, until:D      µs per unit that a provider's headers asked for, and until when
--        born                 µs at which this state began: another one tells an asker that its own was lost
-- ARGV  1  ticket   2  lane: 0 interactive, 1 batch   3  places: how many calls may run at once; 0 for no limit
--       4  lease µs; 0 if this call needs no lease    5  silence µs after which a waiter is forgotten
--       6  longest wait µs   7  horizon µs: how far ahead a batch call may book
--       8  requests a day; 0 for no limit             9  burst in requests
--       10… per dimension (requests, input, output): cost in units, µs per unit (0 for no limit)
--       16 born, as the asker knows it; empty if it never heard
--       17… per dimension: µs from now until its debts are paid, as far as the asker remembers; 0 if it does not
--       20… the same, for what was granted elsewhere: the first counts only if born differs, this one always
-- Returns {verdict, wait µs, tickets ahead, paused µs, {serial, day, µs taken per dimension}, others, born, {µs from now
--          until the debts of each dimension are paid}}; others lists what the same owner was granted unheard as
--          {ticket, wait µs, serial, day, µs taken per dimension}.
--
-- Times are microseconds of this server's clock. They stay below 2^53, so a Lua number holds them exactly, but
-- Lua prints them in scientific notation: whatever is stored goes through `%.0f`.

local GRANTED, IN_LINE, REFUSED = 1, 0, -1
local IDLE_MS = 90000000 -- 25 h after the last word a key leaves nothing behind; a day's count must outlive the day
local DAY_US = 86400000000
local DIMENSIONS = { 'requests', 'input', 'output' }
local RESERVE = 8 -- one place in eight, at least one, is left to interactive calls
local MOST_SERVED = 100 -- by one question, so that no script runs long

local state, leases, heard, wants, granted = KEYS[1], KEYS[2], KEYS[5], KEYS[6], KEYS[7]
local ticket, lane, places = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local lease_us, silence_us, longest_us = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local horizon_us, per_day, burst = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local is_batch = lane == 1
local line = KEYS[3 + lane]

local function whole(us)
  return string.format('%.0f', us)
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local stored = redis.call('HMGET', state, 'blocked', 'paused', 'start:' .. lane, 'serial', 'day', 'today', 'cap',
  'arrival:requests', 'pace:requests', 'until:requests', 'arrival:input', 'pace:input', 'until:input',
  'arrival:output', 'pace:output', 'until:output', 'born')
local function number(position)
  return tonumber(stored[position] or 0)
end
local paused, last_start, serial, day, today = number(2), number(3), number(4), number(5), number(6)
local base = math.max(now, number(1))
local arrivals = { number(8), number(11), number(14) }
local born, is_changed = stored[17] or '', false
for i = 1, 3 do
  local floor = math.max(tonumber(ARGV[19 + i]), born ~= ARGV[16] and tonumber(ARGV[16 + i]) or 0)
  if floor > 0 then
    arrivals[i] = math.max(arrivals[i], now + floor)
    is_changed = true
  end
end
local own_costs = { tonumber(ARGV[10]), tonumber(ARGV[12]), tonumber(ARGV[14]) }

-- When such a call can start: after every debt of every dimension, and not before whoever came earlier in this lane.
-- With others ahead in line it is the soonest possible start, taking them to cost the same.
local function plan(costs, ahead)
  local start, units = math.max(base, last_start), {}
  for i = 1, 3 do
    local unit, pace, pace_until = tonumber(ARGV[9 + 2 * i]), number(6 + 3 * i), number(7 + 3 * i)
    local from = math.max(arrivals[i], base)
    -- Requests pay before they start, less the burst. Tokens pay afterwards, so that a big call is not stuck.
    local credit = i == 1 and burst or costs[i]
    if pace > unit and from < pace_until then
      unit, credit = pace, costs[i]
    end
    if costs[i] > 0 and unit > 0 then
      start = math.max(start, from + ((ahead + 1) * costs[i] - credit) * unit)
    end
    units[i] = unit
  end
  start = math.ceil(start)
  local its_day, so_far = day, today
  if math.floor(start / DAY_US) > its_day then
    its_day, so_far = math.floor(start / DAY_US), 0
  end
  if per_day > 0 and so_far + ahead + 1 > per_day then
    its_day, so_far = its_day + 1, 0
    start = math.max(start, its_day * DAY_US)
  end
  return { start = start, units = units, day = its_day, today = so_far, costs = costs }
end

local function book(planned, whose, lease)
  is_changed = true
  serial, day, today = serial + 1, planned.day, planned.today + 1
  last_start = planned.start
  local taken = { 0, 0, 0 }
  for i = 1, 3 do
    if planned.units[i] > 0 then
      taken[i] = math.ceil(planned.costs[i] * planned.units[i])
      -- Counted from the start, whichever dimension put it off, or the others would save up a burst meanwhile.
      -- Also for a cost of 0: what is settled later counts from here.
      arrivals[i] = math.max(arrivals[i], planned.start) + taken[i]
    end
  end
  if lease_us > 0 then
    redis.call('ZADD', leases, whole(now + lease), whose)
    redis.call('PEXPIRE', leases, IDLE_MS)
  end
  return taken
end

-- Its owner hears of a grant: {wait µs, serial, day, µs taken per dimension}.
local function heard_of(whose, grant)
  local numbers = {}
  for word in string.gmatch(grant, '%S+') do
    numbers[#numbers + 1] = tonumber(word)
  end
  numbers[1] = math.max(0, numbers[1] + paused - now)
  redis.call('HDEL', granted, whose)
  redis.call('ZREM', heard, whose)
  if lease_us > 0 then
    redis.call('ZADD', leases, whole(now + lease_us), whose)
  end
  return numbers
end

local function answer(verdict, wait, ahead, numbers)
  if is_changed then
    if born == '' then
      born = whole(now)
    end
    local written = { 'born', born, 'start:' .. lane, whole(last_start), 'serial', whole(serial), 'day', whole(day),
      'today', whole(today) }
    for i = 1, 3 do
      if arrivals[i] > 0 then
        written[#written + 1] = 'arrival:' .. DIMENSIONS[i]
        written[#written + 1] = whole(arrivals[i])
      end
    end
    redis.call('HSET', state, unpack(written))
    redis.call('PEXPIRE', state, IDLE_MS)
  end
  local given = {}
  if places > 0 or is_batch then
    local owner = string.match(ticket, '^.*:') or ''
    local unheard = redis.call('HGETALL', granted)
    for i = 1, #unheard, 2 do
      if string.sub(unheard[i], 1, #owner) == owner then
        given[#given + 1] = { unheard[i], unpack(heard_of(unheard[i], unheard[i + 1])) }
      end
    end
  end
  local owed = {}
  for i = 1, 3 do
    owed[i] = math.max(0, arrivals[i] - now)
  end
  return { verdict, wait, ahead, paused, numbers or { 0, 0, 0, 0, 0 }, given, born, owed }
end

local function forget(whose)
  redis.call('ZREM', line, whose)
  redis.call('ZREM', heard, whose)
  redis.call('HDEL', wants, whose)
end

local running, again, ahead, is_free = 0, false, 0, true
-- Grants the first in line what they can have, up to the asker.
local function serve()
  local people_first = is_batch and redis.call('ZCARD', KEYS[3]) > 0
  for _ = 1, MOST_SERVED do
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    is_free = not people_first and (places == 0 or running < places)
    if not first or first == ticket or not is_free then
      return
    end
    local wish = redis.call('HGET', wants, first) or '0 0 0'
    local input, output, latest = string.match(wish, '(%S+) (%S+) (%S+)')
    local planned = plan({ own_costs[1], tonumber(input), tonumber(output) }, 0)
    if is_batch and planned.start - now > horizon_us then
      return
    end
    if planned.start <= tonumber(latest) then
      -- Its owner may have been killed: until it answers, the place is not given away for long.
      local taken = book(planned, first, silence_us)
      running = running + 1
      redis.call('ZREM', line, first)
      redis.call('HDEL', wants, first)
      redis.call('HSET', granted, first, string.format('%.0f %.0f %.0f %.0f %.0f %.0f', planned.start - paused,
        serial, day, taken[1], taken[2], taken[3]))
      redis.call('PEXPIRE', granted, IDLE_MS)
    else
      forget(first)
    end
  end
end

if lease_us > 0 then
  redis.call('ZREMRANGEBYSCORE', leases, '-inf', whole(now))
  running = redis.call('ZCARD', leases)
  again = redis.call('ZSCORE', leases, ticket) and true or false
end

if places > 0 or is_batch then
  if places > 0 then
    if stored[7] then
      places = math.min(places, number(7))
    end
    if is_batch then
      places = math.max(1, places - math.ceil(places / RESERVE))
    end
  end
  redis.call('ZADD', heard, 'XX', whole(now), ticket)
  for _, silent in ipairs(redis.call('ZRANGEBYSCORE', heard, '-inf', whole(now - silence_us))) do
    redis.call('ZREM', KEYS[3], silent)
    redis.call('ZREM', KEYS[4], silent)
    redis.call('ZREM', heard, silent)
    redis.call('HDEL', wants, silent)
    if redis.call('HDEL', granted, silent) == 1 then
      running = running - redis.call('ZREM', leases, silent)
    end
  end

  local grant = redis.call('HGET', granted, ticket)
  if grant then
    local numbers = heard_of(ticket, grant)
    serve()
    return answer(GRANTED, numbers[1], 0, { unpack(numbers, 2) })
  end
  if again then
    -- The same question again, because the first answer was lost on its way: it must not stand behind itself.
    running = running - 1
  else
    serve()
  end
  -- A free place is not enough: whoever came earlier starts earlier, even if slow to ask.
  ahead = again and 0 or redis.call('ZRANK', line, ticket) or redis.call('ZCARD', line)
end

local planned = plan(own_costs, ahead)
local wait = planned.start - now
if wait > longest_us then
  redis.call('ZREM', leases, ticket)
  if places > 0 or is_batch then
    forget(ticket)
  end
  return answer(REFUSED, wait, ahead)
end
if ahead > 0 or not is_free or (is_batch and wait > horizon_us) then
  if not redis.call('ZSCORE', line, ticket) then
    local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')
    redis.call('ZADD', line, (tonumber(last[2] or 0)) + 1, ticket)
    redis.call('ZADD', heard, whole(now), ticket)
    redis.call('HSET', wants, ticket, string.format('%s %s %.0f', ARGV[12], ARGV[14], now + longest_us))
    for _, key in ipairs({ line, heard, wants }) do
      redis.call('PEXPIRE', key, IDLE_MS)
    end
  end
  return answer(IN_LINE, wait, ahead)
end
if places > 0 or is_batch then
  forget(ticket)
end
local taken = book(planned, ticket, lease_us)
local its_serial, its_day = serial, day
if places > 0 or is_batch then
  running = running + 1
  serve()
end
return answer(GRANTED, wait, 0, { its_serial, its_day, taken[1], taken[2], taken[3] })

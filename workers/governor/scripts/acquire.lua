-- Answers one question: may this ticket start, and when? Everything at once or nothing, in order of arrival.
--
-- KEYS  1  state   HASH    the numbers listed below
--       2  leases  ZSET    ticket -> µs at which its lease ends unless it is renewed
--       3  line:interactive, 4  line:batch  ZSETs  ticket -> place in order of arrival (only differences matter)
--       5  heard   ZSET    waiting ticket -> µs at which its owner last spoke for it
-- State: blocked              µs before which nobody starts
--        paused               µs by which blocks have put off reserved starts, in total
--        start:0, start:1     the latest start reserved in the interactive and in the batch lane
--        serial               number of the request that was booked last
--        day, today           a UTC day (days since 1970) and the requests booked to start in it
--        cap, successes, cut  adaptive concurrency while it is below the configured one; successes since it last
--                             grew; when it was last cut
--        arrival:D            theoretical arrival time of dimension D (GCRA); D is requests, input or output
--        pace:D, until:D      µs per unit that a provider's headers asked for, and until when
-- ARGV  1  ticket   2  lane: 0 interactive, 1 batch   3  places: how many calls may run at once; 0 for no limit
--       4  lease µs; 0 if this call needs no lease    5  silence µs after which a waiter is forgotten
--       6  longest wait µs   7  horizon µs: how far ahead a batch call may book
--       8  requests a day; 0 for no limit             9  burst in requests
--       10… per dimension (requests, input, output): cost in units, µs per unit (0 for no limit)
-- Returns {verdict, wait µs, tickets ahead, places left, paused µs, serial, day, µs taken per dimension}.
--
-- Times are microseconds of this server's clock. They stay below 2^53, so a Lua number holds them exactly, but
-- Lua prints them in scientific notation: whatever is stored goes through `%.0f`.

local GRANTED, IN_LINE, REFUSED = 1, 0, -1
local IDLE_MS = 90000000 -- 25 h after the last word a key leaves nothing behind; a day's count must outlive the day
local DAY_US = 86400000000
local DIMENSIONS = { 'requests', 'input', 'output' }
local RESERVE = 8 -- one place in eight, at least one, is left to interactive calls

local state, leases, heard = KEYS[1], KEYS[2], KEYS[5]
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
  'arrival:output', 'pace:output', 'until:output')
local function number(position)
  return tonumber(stored[position] or 0)
end
local blocked, paused, last_start, serial, day, today = number(1), number(2), number(3), number(4), number(5), number(6)

-- May it run: is there a place, and has nobody come earlier?
if places > 0 and stored[7] then
  places = math.min(places, number(7))
end
if places > 0 and is_batch then
  places = math.max(1, places - math.ceil(places / RESERVE))
end
local may_run, ahead, running, standing, again = true, 0, 0, false, false
if lease_us > 0 then
  redis.call('ZREMRANGEBYSCORE', leases, '-inf', whole(now))
  running = redis.call('ZCARD', leases)
  if redis.call('ZSCORE', leases, ticket) then
    -- The same question again, because the first answer was lost on its way: it must not stand behind itself.
    running, again = running - 1, true
  end
end
if (places > 0 or is_batch) and not again then
  redis.call('ZADD', heard, 'XX', whole(now), ticket)
  for _, silent in ipairs(redis.call('ZRANGEBYSCORE', heard, '-inf', whole(now - silence_us))) do
    redis.call('ZREM', KEYS[3], silent)
    redis.call('ZREM', KEYS[4], silent)
    redis.call('ZREM', heard, silent)
  end
  local rank = redis.call('ZRANK', line, ticket)
  standing = rank and true or false
  ahead = rank or redis.call('ZCARD', line)
  -- A free place is not enough: whoever came earlier starts earlier, even if slow to ask.
  may_run = ahead == 0 and (places == 0 or running < places)
  if is_batch and may_run then
    may_run = redis.call('ZCARD', KEYS[3]) == 0
  end
end

-- When: after every debt of every dimension, and not before whoever came earlier in this lane.
local base = math.max(now, blocked)
local start = math.max(base, last_start)
local costs, units, arrivals = {}, {}, {}
for i = 1, 3 do
  local cost, unit = tonumber(ARGV[8 + 2 * i]), tonumber(ARGV[9 + 2 * i])
  local arrival, pace, pace_until = number(5 + 3 * i), number(6 + 3 * i), number(7 + 3 * i)
  local from = math.max(arrival, base)
  -- Requests pay before they start, less the burst. Tokens pay afterwards, so that a big call is not stuck.
  local credit = i == 1 and burst or cost
  if pace > unit and from < pace_until then
    unit, credit = pace, cost
  end
  -- For somebody in line this is the soonest possible start, taking those ahead to cost the same.
  if cost > 0 and unit > 0 then
    start = math.max(start, from + ((ahead + 1) * cost - credit) * unit)
  end
  costs[i], units[i], arrivals[i] = cost, unit, arrival
end
start = math.ceil(start)
if math.floor(start / DAY_US) > day then
  day, today = math.floor(start / DAY_US), 0
end
if per_day > 0 and today + ahead + 1 > per_day then
  day, today = day + 1, 0
  start = math.max(start, day * DAY_US)
end
local wait = start - now

if wait > longest_us then
  redis.call('ZREM', leases, ticket)
  if places > 0 or is_batch then
    redis.call('ZREM', line, ticket)
    redis.call('ZREM', heard, ticket)
  end
  return { REFUSED, wait, ahead, 0, paused, 0, 0, 0, 0, 0 }
end

if not may_run or (is_batch and wait > horizon_us) then
  if not standing then
    local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')
    redis.call('ZADD', line, (tonumber(last[2] or 0)) + 1, ticket)
    redis.call('ZADD', heard, whole(now), ticket)
    redis.call('PEXPIRE', line, IDLE_MS)
    redis.call('PEXPIRE', heard, IDLE_MS)
  end
  return { IN_LINE, wait, ahead, 0, paused, 0, 0, 0, 0, 0 }
end

serial = serial + 1
local booked = { 'start:' .. lane, whole(start), 'serial', whole(serial), 'day', whole(day), 'today', whole(today + 1) }
local taken = { 0, 0, 0 }
for i = 1, 3 do
  if costs[i] > 0 and units[i] > 0 then
    -- Counted from the start, whichever dimension put it off, or the others would save up a burst meanwhile.
    local from = math.max(arrivals[i], start)
    taken[i] = math.ceil(costs[i] * units[i])
    booked[#booked + 1] = 'arrival:' .. DIMENSIONS[i]
    booked[#booked + 1] = whole(from + taken[i])
  end
end
redis.call('HSET', state, unpack(booked))
redis.call('PEXPIRE', state, IDLE_MS)
if lease_us > 0 then
  redis.call('ZADD', leases, whole(now + lease_us), ticket)
  redis.call('PEXPIRE', leases, IDLE_MS)
end
if standing then
  redis.call('ZREM', line, ticket)
  redis.call('ZREM', heard, ticket)
end
return { GRANTED, wait, 0, math.max(0, places - running - 1), paused, serial, day, taken[1], taken[2], taken[3] }

-- Says for one process that it is alive: renews the leases of its running calls and speaks for its waiters.
-- What has ended or was forgotten meanwhile stays so (XX).
--
-- KEYS  1  state   2  leases   3  heard   (see acquire.lua)
-- ARGV  1  lease µs   2  number of leases n   3… n leases, then the waiting tickets
-- Returns paused: µs by which reserved starts have been put off in total.
local IDLE_MS = 90000000
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local lease_ends, heard_at = string.format('%.0f', now + tonumber(ARGV[1])), string.format('%.0f', now)
local last_lease = 2 + tonumber(ARGV[2])
for i = 3, #ARGV do
  if i <= last_lease then
    redis.call('ZADD', KEYS[2], 'XX', lease_ends, ARGV[i])
  else
    redis.call('ZADD', KEYS[3], 'XX', heard_at, ARGV[i])
    -- It may have been granted since it last asked.
    redis.call('ZADD', KEYS[2], 'XX', lease_ends, ARGV[i])
  end
end
redis.call('PEXPIRE', KEYS[2], IDLE_MS)
redis.call('PEXPIRE', KEYS[3], IDLE_MS)
return tonumber(redis.call('HGET', KEYS[1], 'paused') or 0)

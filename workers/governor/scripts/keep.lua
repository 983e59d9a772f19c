-- Says for one process that it is alive: renews the leases of its running calls and speaks for its waiters.
-- What has ended or was forgotten meanwhile stays so (XX).
--
-- KEYS  1  leases   2  heard   3  paused   (see acquire.lua)
-- ARGV  1  lease µs   2  number of leases n   3… n leases, then the waiting tickets
-- Returns paused: µs by which reserved starts have been put off in total.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local lease_ends, heard_at = string.format('%.0f', now + tonumber(ARGV[1])), string.format('%.0f', now)
local last_lease = 2 + tonumber(ARGV[2])
for i = 3, #ARGV do
  if i <= last_lease then
    redis.call('ZADD', KEYS[1], 'XX', lease_ends, ARGV[i])
  else
    redis.call('ZADD', KEYS[2], 'XX', heard_at, ARGV[i])
  end
end
redis.call('PEXPIRE', KEYS[1], 3600000)
redis.call('PEXPIRE', KEYS[2], 3600000)
return tonumber(redis.call('GET', KEYS[3]) or 0)

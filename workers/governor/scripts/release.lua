-- Takes tickets out of everything: calls that ended, waiters that gave up. Unknown tickets are fine.
--
-- KEYS  1  leases   2  line   3  heard   (see acquire.lua)
-- ARGV  the tickets
for _, ticket in ipairs(ARGV) do
  for _, key in ipairs(KEYS) do
    redis.call('ZREM', key, ticket)
  end
end
return 0

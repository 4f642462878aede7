-- Renews permits of a semaphore, if the first of them is still there.
--
-- KEYS[1] the semaphore
-- ARGV[1] for how long, ms
-- ARGV[2] the first permit's member
-- ARGV[n] from the second on: a member for each permit
--
-- Returns 1 if they were renewed, 0 if not.

--- @include _permits

local keep = tonumber(ARGV[1])
expire(KEYS[1], keep)
if not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], score(keep), ARGV[i]) end
lasts(KEYS[1], keep)
return 1

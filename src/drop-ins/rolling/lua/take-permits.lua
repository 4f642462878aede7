-- Takes permits of a semaphore, all or none.
--
-- KEYS[1] the semaphore
-- ARGV[1] for how long, ms
-- ARGV[2] how many permits there are
-- ARGV[n] from the third on: a member for each permit
--
-- Returns 1 and the server's time in microseconds, as a text, if they were taken; else 0.

--- @include _permits

local keep = tonumber(ARGV[1])
expire(KEYS[1], keep)
if redis.call('ZCARD', KEYS[1]) + #ARGV - 2 > tonumber(ARGV[2]) then return { 0 } end
for i = 3, #ARGV do redis.call('ZADD', KEYS[1], now, ARGV[i]) end
lasts(KEYS[1], keep)
return { 1, string.format('%.0f', time[1] * 1000000 + time[2]) }

-- Takes permits of a semaphore, all or none. A member that is there already was put there by this question, when it came the first time: a client
-- sends again what was not answered.
--
-- KEYS[1] the semaphore
-- ARGV[1] for how long, ms
-- ARGV[2] how many permits there are
-- ARGV[3] 1: others may have the same members, so that those are in the way like any other; else 0
-- ARGV[n] from the fourth on: a member for each permit
--
-- Returns 1 and the server's time in microseconds, as a text, if they were taken; else 0.

--- @include _permits

local keep = tonumber(ARGV[1])
expire(KEYS[1], keep)
local wanted = #ARGV - 3
if ARGV[3] == '0' then
  for i = 4, #ARGV do
    if redis.call('ZSCORE', KEYS[1], ARGV[i]) then wanted = wanted - 1 end
  end
end
if redis.call('ZCARD', KEYS[1]) + wanted > tonumber(ARGV[2]) then return { 0 } end
for i = 4, #ARGV do redis.call('ZADD', KEYS[1], score(keep), ARGV[i]) end
lasts(KEYS[1], keep)
return { 1, string.format('%.0f', time[1] * 1000000 + time[2]) }

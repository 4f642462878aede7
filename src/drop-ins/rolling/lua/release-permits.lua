-- Gives permits of a semaphore back.
--
-- KEYS[1] the semaphore
-- ARGV[n] a member for each permit
--
-- Returns how many of them were there.

local count = 0
for i = 1, #ARGV do count = count + redis.call('ZREM', KEYS[1], ARGV[i]) end
return count

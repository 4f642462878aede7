-- Deletes the locks that have the value.
--
-- KEYS[n] the locks
-- ARGV[1] the value
--
-- Returns how many were deleted.

local count = 0
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[1] then
    redis.call('DEL', KEYS[i])
    count = count + 1
  end
end
return count

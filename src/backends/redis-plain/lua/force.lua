-- Ends the lease of ours that has this fence, and notes who did it and why.
--
-- KEYS[1] the lock
-- KEYS[2] the notes of our clients beside it
-- ARGV[1] the fence
-- ARGV[2] who ends it and why, as JSON
-- ARGV[3] how long that is shown, ms
-- ARGV[4] the lock's name
--
-- Returns 1 if it was ended, 0 if no lease of ours has that fence.

--- @include _value

local id, fence = parse(redis.call('GET', KEYS[1]))
if fence ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], 'left', now, 'forced', table.concat({ now, id, fence, ARGV[2] }, ' '), 'name', ARGV[4])
redis.call('DEL', KEYS[1])
lasts(KEYS[2], tonumber(ARGV[3]))
return 1

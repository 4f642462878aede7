-- Ends the lease that has this fence, and notes who did it and why.
--
-- KEYS[1] the lock
-- KEYS[2] the notes of our clients beside it
-- KEYS[3] of a fenced lock its token, otherwise absent
-- ARGV[1] the fence
-- ARGV[2] who ends it and why, as JSON
-- ARGV[3] how long that is shown, ms
-- ARGV[4] the lock's name
-- ARGV[5] what the keys of deadlines start with
-- ARGV[6] the channel on which others wait
-- ARGV[7] "1": in a cluster, whose sharded channels are used too
--
-- Returns 1 if it was ended, 0 if no lease has that fence.

--- @include _lock

local mode, fields = look(KEYS[1])
local token = theirs(KEYS[2], KEYS[3])
for _, field in ipairs(fields) do
  local fence = noted(KEYS[2], field)
  -- The token of a fenced lock is that of its holder, in Java too.
  if (fence or mode == 'lock' and token) == ARGV[1] then
    redis.call('HDEL', KEYS[2], 'h:' .. field)
    redis.call('HSET', KEYS[2], 'forced', table.concat({ now, field, ARGV[1], ARGV[2] }, ' '), 'name', ARGV[4])
    leave(KEYS[1], KEYS[2], field, ARGV[5], ARGV[6], ARGV[7])
    lasts(KEYS[2], tonumber(ARGV[3]))
    return 1
  end
end
return 0

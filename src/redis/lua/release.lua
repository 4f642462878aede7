-- Ends the claim, held or queued, and grants the lock to the next waiters in the same step.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent without quarantine
-- ARGV[1] the claim's id
-- ARGV[2] the quarantine, ms; absent without quarantine
--
-- Returns 1, or 0 when the lock knew nothing of the claim.

--- @include _incarnation
--- @include _lock
--- @include _leave

local lock = open(KEYS[1], ARGV[1])
if not lock then return redis.error_reply('HOLDFAST_FOREIGN') end
local ended = leave(lock, ARGV[1])
local waited_for = lock.queued > 0
if waited_for then
  local young = KEYS[2] and young_ms(KEYS[2], tonumber(ARGV[2]), now) or 0
  prune(lock)
  if young == 0 then promote(lock) end
end
if ended == 1 or waited_for then close(lock) end
return ended

-- Removes the lock's outcome, if it was left by the lease with this fence.
--
-- KEYS[1] the lock
-- ARGV[1] the first fence of the lease, 16 digits
--
-- Returns 1, or 0 if there is no such outcome.

--- @include _lock
--- @include _outcome

local outcome, _, number = outcome_in(redis.call('HGET', KEYS[1], FIELD.outcome))
if not outcome or number ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], FIELD.outcome)
return 1

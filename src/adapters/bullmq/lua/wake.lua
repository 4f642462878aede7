-- Take away what is over in an order, and say which jobs may run now and were delayed because it was not their turn.
--
-- KEYS[1] order
-- KEYS[2] completed
-- KEYS[3] failed
-- KEYS[4] waiting-children
-- KEYS[5] delayed
-- ARGV[1] prefix of the keys of jobs
-- ARGV[2] lock
-- ARGV[3] limit, how many may run at once
--
-- Returns their ids.

--- @include _order

local _, wake = front(KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), false, KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return wake

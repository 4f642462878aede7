-- Continues what finish began: the next waiters that want an outcome leave the queue, and their processes learn of it.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the place in the queue from which to continue
-- ARGV[2] the quarantine (see _identity); absent without
--
-- Returns the place from which the next call is to continue; 0 if the queue ends there.

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _mail
--- @include _outcome
--- @include _queue
--- @include _wake

local lock = open(KEYS[1], '')
if not lock then return redis.error_reply(WORD.foreign) end
if lock.queued == 0 or not outcome_of(lock) then return 0 end
local next_place = wake(lock, math.max(lock.head, tonumber(ARGV[1])))
local young = young_at(lock, marker_of(KEYS[1], KEYS[2]), ARGV[2], now)
prune(lock)
if young == 0 then promote(lock) end
close(lock)
return next_place

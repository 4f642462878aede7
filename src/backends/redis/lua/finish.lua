-- Ends a claim as release does, and keeps what its work came to if it held the lock, in the same step. Those who wait for an outcome leave
-- the queue; the others are next.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the claim's id, and "!" if its minHold counts
-- ARGV[2] how long the outcome is kept, ms
-- ARGV[3] the first fence of the lease under which the work was done, 16 digits
-- ARGV[4] its holder, JSON without spaces
-- ARGV[5] its value
-- ARGV[6] the quarantine (see _identity); absent without
--
-- Returns { what release returns, the place in the queue from which wake is to continue; 0 if the queue ends there }. Asked again,
-- the claim was held for as long as its outcome is kept. A claim that has taken the lock again by a late attempt holds by another
-- lease than that of the work: that one ends, and the claim is not known.

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _mail
--- @include _outcome
--- @include _queue
--- @include _leave
--- @include _wake

local id, keeps = leaving(ARGV[1])
local lock = open(KEYS[1], id)
if not lock then return redis.error_reply(WORD.foreign) end
local held = lock.held and ends(lock.held) > now
local number = held and string.sub(lock.held, RECORD.number)
local mine = number == ARGV[3]
local kept = false
if not mine then
  local outcome, by, fence = outcome_in(redis.call('HGET', KEYS[1], FIELD.outcome))
  kept = outcome and by == id and fence == ARGV[3]
  if kept and not held then
    -- Written once more, so that a WAIT that follows is about it. After a deletion, a full server (noeviction) accepts what follows.
    redis.call('HDEL', KEYS[1], FIELD.none)
    redis.call('HSET', KEYS[1], FIELD.outcome, outcome)
    return { 1, lock.queued > 0 and lock.head or 0 }
  end
end
local till, idle, next_place = now + ARGV[2], nil, 0
if mine then idle = lock.held_terms.idle end
local ended = leave(lock, id, keeps)
if held and not mine then ended = kept and 1 or 0 end
if mine then
  lock.outcome = OUTCOME.text{ over = digits(till), left = now_text, number = number, id = id, holder = ARGV[4], value = ARGV[5] }
  redis.call('HSET', KEYS[1], FIELD.outcome, lock.outcome)
  if lock.queued > 0 then next_place = wake(lock, lock.head) end
end
local waited_for = lock.queued > 0
if waited_for then
  local young = young_at(lock, marker_of(KEYS[1], KEYS[2]), ARGV[6], now)
  prune(lock)
  if young == 0 then promote(lock) end
end
if mine then close(lock, till, idle) elseif held or ended > 0 or waited_for then close(lock) end
return { lock.busy and ended + 4 or ended, next_place }

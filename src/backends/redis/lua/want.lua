-- Tells those who hold the lock that a claim waits for it: for a quorum, whose votes never queue.
--
-- KEYS[1] the lock
--
-- Returns 1 if it is held, otherwise 0.

-- The usual case: one exclusive holder, whose record is in the state. Nothing is written.
local state = redis.call('HGET', KEYS[1], FIELD.state)
local last, death, latest, record, first = string.match(state or '', STATE_ALONE.pattern{ id = latest, till = first })
if latest then
  local inbox = string.match(record, RECORD.pattern{})
  local seal = string.sub(redis.sha1hex(latest .. MARK.wanted), 1, LIMIT.seal)
  if inbox then redis.call('PUBLISH', inbox, WORD.wanted .. string.sub(latest, 1, LIMIT.shown) .. MARK.wanted .. MARK.seal .. seal) end
  return 1
end

--- @include _lock
--- @include _mail
--- @include _wanted

local lock = open(KEYS[1], '')
if not lock then return redis.error_reply(WORD.foreign) end
tell_holders(lock)
return lock.n > 0 and 1 or 0

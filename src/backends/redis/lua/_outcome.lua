-- The outcome that a lock keeps: what the work under a lease came to, for the claims that want that instead of the lock. While there is
-- one, no such claim is granted the lock or stays in its queue, whichever script comes across it.

local function wants(terms)
  return string.byte(terms, -1) == MARK.wants.byte
end

-- An OUTCOME that is kept now, the claim that left it, and its fence; false: it is over, or not one of ours.
local function outcome_in(text)
  local over, left, number, id, value_at = string.match(text or '', OUTCOME.exact{})
  if not over or over <= now_text or over < left or over - left > LIMIT.kept or #text - value_at >= LIMIT.outcome then return false end
  return text, id, number
end

-- The same of the lock, read once in a call. One that is over is removed.
local function outcome_of(lock)
  if lock.outcome == nil then
    local text = redis.call('HGET', lock.key, FIELD.outcome)
    lock.outcome = outcome_in(text)
    if text and not lock.outcome and string.sub(text, OUTCOME.over) <= now_text then redis.call('HDEL', lock.key, FIELD.outcome) end
  end
  return lock.outcome
end

-- How a claim goes out, held or queued.

-- Whose end a script is asked for: the claim's id, and whether its minHold counts.
local function leaving(arg)
  if string.sub(arg, -1) ~= MARK.keeps then return arg, false end
  return string.sub(arg, 1, #arg - MARK.keeps.length), true
end

-- Ends the claim and returns 1 when it was held, 2 when it was queued, 0 when the lock knew nothing of it. The caller
-- promotes and closes. `keeps`: its minHold counts, because somebody had the lease.
local function leave(lock, id, keeps)
  if lock.waits then
    leave_queue(lock, id, place_of(lock.waits))
    lock.waits = false
    return 2
  end
  if not lock.held or ends(lock.held) <= now then return 0 end
  redis.call('HDEL', lock.key, FIELD.holder .. id)
  local terms = lock.held_terms
  lock.since = since(lock.held)
  -- By a clock that was set back it would stay for longer than it was ever asked to.
  local stays = math.min(since(lock.held), now) + terms.minhold
  if keeps and stays > now then
    -- Taken until its minHold has passed, though nobody holds it: under a name that no claim has.
    redis.call('HSET', lock.key, FIELD.kept .. id, RECORD.replace(lock.held, till, digits(stays)))
    if stays < lock.first then lock.first = stays end
    lock.latest = '~' .. id
    lock.stays, lock.idle = stays, terms.idle
  else
    lock.n = lock.n - 1
    if lock.latest == id then lock.latest = WORD.nobody end
  end
  -- Voted leases have no queue here: whoever wants one listens to the lock itself.
  if terms.voted then redis.call('PUBLISH', lock.key, WORD.freed) end
  lock.held = false
  return 1
end

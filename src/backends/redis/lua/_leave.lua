-- Ends a claim, held or queued.

-- Reads an argument: the id of the claim that ends, and whether its minHold counts.
local function leaving(arg)
  if string.sub(arg, -1) ~= MARK.keeps then return arg, false end
  return string.sub(arg, 1, #arg - MARK.keeps.length), true
end

-- Ends the claim and returns 1 if it was held, 2 if it was queued, 0 if the lock did not know it. The caller promotes and closes.
-- `keeps`: its minHold counts, because a caller had the lease.
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
  -- After the clock was set back, it would stay longer than it was asked to.
  local stays = math.min(since(lock.held), now) + terms.minhold
  if keeps and stays > now then
    -- Taken until its minHold has passed, without a holder: under a name that no claim has.
    redis.call('HSET', lock.key, FIELD.kept .. id, RECORD.replace(lock.held, till, digits(stays)))
    if stays < lock.first then lock.first = stays end
    lock.latest = '~' .. id
    lock.stays, lock.idle = stays, terms.idle
  else
    lock.n = lock.n - 1
    if lock.latest == id then lock.latest = WORD.nobody end
  end
  -- Voted leases have no queue here: their waiters listen to the lock's own channel.
  if terms.voted then redis.call('PUBLISH', lock.key, WORD.freed) end
  lock.held = false
  return 1
end

-- Grants a claim at once, or queues it.

-- Farther back than this, a position also counts empty places: it is for people to read, and must not keep the server busy.
local COUNTED_MAX = 500

-- How many claims wait up to that place. Some places may be empty, because their claims gave up.
local function position(lock, place)
  local before = place - lock.head
  if place == lock.tail then return lock.queued end
  if lock.tail - lock.head + 1 == lock.queued or before > COUNTED_MAX then
    return math.max(1, math.min(before + 1, lock.queued))
  end
  local places, count = {}, 1
  for i = 1, before do places[i] = FIELD.place .. (lock.head + i - 1) end
  for _, id in ipairs(before > 0 and redis.call('HMGET', lock.key, unpack(places)) or {}) do
    if id and string.byte(id) ~= 32 then count = count + 1 end
  end
  return count
end

-- A REFUSAL: the place in the queue or 0, ms until the earliest end, now, a holder's record or "", and for a waiter what it
-- learns (see still_queued).
local function refusal(lock, young)
  local place, ahead, learns = 0, lock.first - now, nil
  if lock.waits then place, learns = position(lock, place_of(lock.waits)), still_queued(lock, young) end
  if young > 0 then return REFUSAL.reply{ place = place, ahead = young, now = now_text, record = WORD.young, learned = learns } end
  -- It has no holder, and the next waiter is not known yet: try again at once.
  if lock.busy and lock.n == 0 and not lock.waits then return REFUSAL.reply{ place = 0, ahead = 0, now = now_text, record = WORD.busy } end
  if lock.n == 0 then ahead = 0 end
  local record = redis.call('HGET', lock.key, FIELD.holder .. lock.latest)
  if not record and lock.n > 0 and lock.n + lock.queued <= 32 then
    local holder = fields_of(lock, FIELD.holder)[1]
    record = holder and redis.call('HGET', lock.key, holder)
  end
  return REFUSAL.reply{ place = place, ahead = ahead, now = now_text, record = record or '', learned = learns }
end

local function enqueue(lock, id, terms)
  lock.tail, lock.queued = lock.tail + 1, lock.queued + 1
  lock.waits = RECORD.text{ till = digits(now + terms.ticket), since = now_text, number = small(lock.tail), terms = terms.text }
  redis.call('HSET', lock.key, FIELD.waiter .. id, lock.waits, FIELD.place .. lock.tail, id)
  if lock.queued == 1 then tell_holders(lock) end
  if terms.mode == MODE.exclusive then lock.limit = terms.limit end
end

-- A holder's record with what its process says of itself now, and where that listens.
local function rewritten(record, terms)
  local inbox_at = string.match(record, RECORD.pattern{})
  local before = string.sub(record, 1, inbox_at - 1)
  inbox_at = string.match(terms, TERMS.pattern{})
  return before .. string.sub(terms, inbox_at)
end

-- The claim waits no longer, and those behind it may be next.
local function give_up(lock, id, young)
  leave_queue(lock, id, place_of(lock.waits))
  lock.waits = false
  if lock.queued > 0 and young == 0 then promote(lock) end
end

-- Returns a RUN, a REFUSAL or an error. `young` > 0: nothing may be granted yet.
local function enter(lock, id, terms, young)
  local till = now + terms.keep
  -- A claim that is in already stays in: after a deletion in the same script, a full server (noeviction) accepts what follows.
  if lock.held or lock.waits then redis.call('HDEL', lock.key, FIELD.none) end
  prune(lock)
  if lock.held and ends(lock.held) > now then
    -- A repeated attempt: the reply to the first was lost. The caller counts from this one, so the lease does too.
    lock.held = rewritten(lock.held, terms.text)
    extend(lock, id, till)
    local answer = run_of(lock.held)
    -- In a swap, the claim that left may have blocked others.
    if lock.queued > 0 and young == 0 then promote(lock) end
    answer = granted(lock, id, answer)
    close(lock, till, terms.idle)
    return answer
  end
  if wants(terms.text) and outcome_of(lock) then
    if lock.waits then give_up(lock, id, young) elseif lock.queued > 0 and young == 0 then promote(lock) end
    close(lock)
    return REFUSAL.reply{ place = 0, ahead = 0, now = now_text, record = WORD.done, learned = lock.outcome }
  end
  local fence
  if lock.waits then
    lock.waits = RECORD.text{
      till = digits(now + terms.ticket), since = string.sub(lock.waits, RECORD.since), number = string.sub(lock.waits, RECORD.number),
      terms = terms.text,
    }
    redis.call('HSET', lock.key, FIELD.waiter .. id, lock.waits)
  end
  if lock.queued > 0 and young == 0 then fence = promote(lock, id) end
  if not fence and terms.mode == MODE.exclusive then
    if lock.queued == 0 and (lock.n == 0 or lock.mode == MODE.shared) then lock.limit = 0 end
    if lock.limit ~= 0 and lock.limit ~= terms.limit then
      close(lock)
      return redis.error_reply(WORD.limit .. ' ' .. lock.limit)
    end
  end
  if not fence and lock.queued == 0 and young == 0 and admits(lock, terms) then fence = grant(lock, id, terms, till) end
  if fence then
    fence = granted(lock, id, fence)
    close(lock, till, terms.idle)
    return fence
  end
  if not lock.waits and terms.ticket > 0 then enqueue(lock, id, terms) end
  if lock.waits and terms.ticket == 0 then give_up(lock, id, young) end
  close(lock, lock.waits and till, terms.idle)
  return refusal(lock, young)
end

-- Heartbeats of waiters: keeps their tickets alive, returns their state, and grants to the head if a dead holder's time is over.
--
-- KEYS[1] the first claim's lock
-- KEYS[2..] the other claims' locks, one each
-- KEYS[n] after the locks, the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] how many claims
-- ARGV[2] the quarantine (see _identity); 0 without
-- ARGV[3..] the claims' ids
--
-- Returns for each claim a GRANTED if it holds; LEARNED if it is queued; "-" if neither; or "!" and an error.

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _mail
--- @include _outcome
--- @include _queue
--- @include _wanted

local count = tonumber(ARGV[1])
-- Waiters keep waiting: after a deletion in the same script, a full server (noeviction) accepts what follows.
if count > 0 then redis.pcall('HDEL', KEYS[1], FIELD.none) end
local here = { by = '' }
local young = young_at(here, marker_of(KEYS[1], KEYS[count + 1]), ARGV[2] ~= '0' and ARGV[2], now)
if here.cut_off then return redis.error_reply(CUT_OFF) end

local function beat(key, id)
  local lock = open(key, id)
  if not lock then return WORD.failed .. WORD.foreign end
  lock.by = here.by
  prune(lock)
  if lock.held and ends(lock.held) > now then
    local terms = lock.held_terms
    local till = now + terms.keep
    extend(lock, id, till)
    local answer = granted(lock, id, run_of(lock.held))
    close(lock, till, terms.idle)
    return answer
  end
  if not lock.waits then return '-' end
  local terms = lock.waits_terms
  if wants(lock.waits) and outcome_of(lock) then
    leave_queue(lock, id, place_of(lock.waits))
    if young == 0 then promote(lock) end
    close(lock)
    return '-'
  end
  lock.waits = RECORD.replace(lock.waits, till, digits(now + terms.ticket))
  redis.call('HSET', key, FIELD.waiter .. id, lock.waits)
  local fence = young == 0 and promote(lock, id)
  if fence then fence = granted(lock, id, fence) end
  close(lock, now + terms.keep, terms.idle)
  return fence or still_queued(lock, young)
end

local answers = {}
for i = 1, count do
  answers[i] = separately(beat, KEYS[i], ARGV[i + 2])
end
return answers

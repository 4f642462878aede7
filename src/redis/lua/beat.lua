-- Says for waiters that they are alive, learns what became of them, and lets the head in where a dead holder's time is over.
--
-- KEYS[1..] the locks, one per claim
-- KEYS[n] after the locks, the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] how many claims
-- ARGV[2] the quarantine, ms; 0 without
-- ARGV[3..] the claims' ids
--
-- Returns per claim "<fence>+<more>" when it holds, "!" and an error, or a number: -1 when it is neither held nor queued,
-- 0 when it is queued, and at the head of the queue the ms after which it is worth asking again.

--- @include _incarnation
--- @include _lock

local count = tonumber(ARGV[1])
local young = young_or_0(marker_of(KEYS[count], KEYS[count + 1]), ARGV[2] ~= '0' and ARGV[2], now)

local function beat(key, id)
  local lock = open(key, id)
  if not lock then return '!HOLDFAST_FOREIGN' end
  prune(lock)
  if lock.held and ends(lock.held) > now then
    local terms = parse(terms_of(lock.held))
    local till = now + terms.keep
    extend(lock, id, till)
    close(lock, till, terms.idle)
    return told(lock.held)
  end
  if not lock.waits then return -1 end
  local terms = parse(terms_of(lock.waits))
  lock.waits = string.format('%013.0f', now + terms.ticket) .. string.sub(lock.waits, 14)
  redis.call('HSET', key, 'w' .. id, lock.waits)
  local fence = young == 0 and promote(lock, id)
  close(lock, now + terms.keep, terms.idle)
  if fence then return fence end
  local place = tonumber(string.match(lock.waits, '^%d+ %d+ (%d+) '))
  if place > lock.head then return 0 end
  if young > 0 then return young end
  return math.max(1, lock.first - now)
end

local answers = {}
for i = 1, count do
  answers[i] = separately(beat, KEYS[i], ARGV[i + 2])
end
return answers

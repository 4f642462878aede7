-- Ends the lease whose run of fences contains the given one, notifies its holder, and grants to the next waiters.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the fence, a decimal string
-- ARGV[2] who ends it and why, JSON
-- ARGV[3] how long the record of this is kept, ms
-- ARGV[4] the quarantine (see _identity); absent without
--
-- Returns 1, or 0 if no lease has that fence.

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _mail
--- @include _outcome
--- @include _queue
--- @include _force

local key, fence, keep = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[3])
local lock = open(key, '')
if not lock then return redis.error_reply(WORD.foreign) end
prune(lock)

for _, field in ipairs(fields_of(lock, FIELD.holder)) do
  local record = redis.call('HGET', key, field)
  local till, terms = read(record)
  local first = terms and till > now and tonumber(fence_of(record))
  if first and first <= fence and fence <= first + terms.more then
    sweep(lock, keep)
    end_by_force(lock, field, record, terms, ARGV[2])
    local young = young_at(lock, marker_of(KEYS[1], KEYS[2]), ARGV[4], now)
    if lock.queued > 0 and young == 0 then promote(lock) end
    close(lock, now + keep, terms.idle)
    return 1
  end
end
return 0

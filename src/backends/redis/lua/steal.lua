-- Ends all leases of the lock by force, and grants it to the claim before all who wait. A claim that holds the lock keeps it, and ends
-- nothing.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the claim's id
-- ARGV[2] the claim's terms
-- ARGV[3] who ends them and why, JSON
-- ARGV[4] how long the record of this is kept, ms
-- ARGV[5] the quarantine (see _identity); absent without
--
-- Returns a GRANTED; or a REFUSAL if nothing may be granted yet.

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _mail
--- @include _outcome
--- @include _queue
--- @include _wanted
--- @include _enter
--- @include _force

local id, terms, keep = ARGV[1], parse(ARGV[2]), tonumber(ARGV[4])
local lock = open(KEYS[1], id)
if not lock then return redis.error_reply(WORD.foreign) end
local young = young_at(lock, marker_of(KEYS[1], KEYS[2]), ARGV[5], now)
if lock.cut_off then return redis.error_reply(CUT_OFF) end
if young > 0 or lock.held and ends(lock.held) > now then return enter(lock, id, terms, young) end
local others = lock.waits and lock.queued - 1 or lock.queued
-- Holders do not count, because they end; those who wait do.
if terms.mode == MODE.exclusive and others > 0 and lock.limit ~= 0 and lock.limit ~= terms.limit then
  return redis.error_reply(WORD.limit .. ' ' .. lock.limit)
end
prune(lock)
local fields = fields_of(lock, FIELD.holder)
local records, all = values_of(lock, fields), {}
-- Nothing is changed before it is certain that all of it can be.
for i, record in ipairs(records) do
  all[i] = select(2, read(record))
  if not all[i] then return redis.error_reply(WORD.foreign) end
end
if #fields > 0 then sweep(lock, keep) end
for i, field in ipairs(fields) do end_by_force(lock, field, records[i], all[i], ARGV[3]) end
lock.n, lock.first, lock.latest = 0, 0, WORD.nobody
if lock.waits then
  leave_queue(lock, id, place_of(lock.waits))
  lock.waits = false
end
local till = now + terms.keep
local answer = grant(lock, id, terms, till)
-- Who waits may hold beside the thief: readers beside a reader, or others up to the limit.
if lock.queued > 0 then promote(lock) end
answer = granted(lock, id, answer)
close(lock, #fields > 0 and math.max(till, now + keep) or till, terms.idle)
return answer

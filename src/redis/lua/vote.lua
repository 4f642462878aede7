-- Grants a proposed fence to the claim if the lock is free and the ballot is above every fence granted before.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent when the server is durable
-- ARGV[1] the claim's id
-- ARGV[2] the claim's terms
-- ARGV[3] the ballot, a decimal string
-- ARGV[4] the quarantine, ms; absent when the server is durable
--
-- Returns { "granted" | "held" | "low" | "young", now, detail, waiters }. Detail: a holder's record, the greatest fence,
-- or ms. Waiters: how many connections listen for this lock's release.

--- @include _incarnation
--- @include _lock

local lock = open(KEYS[1], ARGV[1])
if not lock then return redis.error_reply('HOLDFAST_FOREIGN') end
local stamp = string.format('%.0f', now)
local young = KEYS[2] and young_ms(KEYS[2], tonumber(ARGV[4]), now) or 0
if young > 0 then return { 'young', stamp, string.format('%.0f', young) } end

local id, terms, ballot = ARGV[1], parse(ARGV[2]), tonumber(ARGV[3])
local waiters = redis.call('PUBSUB', 'NUMSUB', KEYS[1])[2]
local till = now + terms.keep
prune(lock)
local mine = lock.held and ends(lock.held) > now
if mine and tonumber(fence_of(lock.held)) == ballot then
  extend(lock, id, till)
  close(lock, till, terms.idle)
  return { 'granted', stamp, '', waiters }
end
if not mine and not admits(lock, terms) then
  close(lock)
  return { 'held', stamp, redis.call('HGET', KEYS[1], 'h' .. lock.latest) or '', waiters }
end
if ballot <= lock.fence then
  close(lock)
  return { 'low', stamp, string.format('%.0f', lock.fence) }
end
-- A higher ballot of the holder itself raises its fence.
if mine then lock.n = lock.n - 1 end
lock.fence = ballot
hold(lock, id, terms, till, ballot)
close(lock, till, terms.idle)
return { 'granted', stamp, '', waiters }

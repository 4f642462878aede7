-- Grants a proposed fence to the claim if its key is free and the ballot is above every fence that our clients were granted.
--
-- KEYS[1] the lock
-- KEYS[2] the notes of our clients beside it
-- ARGV[1] the claim's id
-- ARGV[2] for how long, ms
-- ARGV[3] its minHold, ms
-- ARGV[4] its lockDelay, ms
-- ARGV[5] how long unused notes are kept, ms
-- ARGV[6] who claims
-- ARGV[7] the ballot
--
-- Returns "granted" and now; or "low", now and the last fence; or "held", now, how long until the key expires and the holder as shown.

--- @include _value

local value = redis.call('GET', KEYS[1])
local keep, ballot = tonumber(ARGV[2]), tonumber(ARGV[7])
local last = tonumber(redis.call('HGET', KEYS[2], 'fence') or '0') or 0
local id, fence, since = parse(value)
if value and id ~= ARGV[1] then return { 'held', now, redis.call('PTTL', KEYS[1]), shown(value) } end
if id and tonumber(fence) == ballot then
  lasts(KEYS[1], keep)
  return { 'granted', now }
end
if ballot <= last then return { 'low', now, string.format('%.0f', last) } end
if id then keep = math.max(keep, redis.call('PTTL', KEYS[1])) end
redis.call('SET', KEYS[1], table.concat({ 'holdfast', ARGV[1], ARGV[7], since or now, ARGV[3], ARGV[4], ARGV[6] }, ':'), 'PX', keep)
redis.call('HSET', KEYS[2], 'fence', ARGV[7])
lasts(KEYS[2], keep + ARGV[5])
return { 'granted', now }

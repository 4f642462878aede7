-- Ends the claim's lease, and nothing else: the key is deleted only if it is still the claim's.
--
-- KEYS[1] the lock
-- KEYS[2] the notes of our clients beside it
-- ARGV[1] the claim's id
-- ARGV[2] its minHold, ms; -1: the one that it was granted with
-- ARGV[3] how long unused notes are kept, ms
--
-- Returns 1 if the claim held the lock, 0 if not.

--- @include _value

local id, fence, since, hold, _, who = parse(redis.call('GET', KEYS[1]))
if id ~= ARGV[1] then return 0 end
if ARGV[2] ~= '-1' then hold = ARGV[2] end
-- A clock that was set back does not make it longer.
local rest = math.min(tonumber(hold), since + hold - now)
if rest > 0 then
  redis.call('SET', KEYS[1], table.concat({ 'holdfast', '-', fence, since, hold, '0', who }, ':'), 'PX', rest)
else
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[2], 'left', now)
  lasts(KEYS[2], tonumber(ARGV[3]))
end
return 1

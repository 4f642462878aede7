-- Takes the lock if its key is free; a claim that has it keeps it.
--
-- KEYS[1] the lock
-- KEYS[2] the notes of our clients beside it
-- ARGV[1] the claim's id
-- ARGV[2] for how long, ms
-- ARGV[3] its minHold, ms
-- ARGV[4] its lockDelay, ms
-- ARGV[5] how long unused notes are kept, ms
-- ARGV[6] how long the lock stays free for others after a lease of ours, ms; 0 for a claim that need not wait for that
-- ARGV[7] who claims
--
-- Returns the fence as a text; or how long until the key expires (-1: never), now, and the holder as shown; the holder is "" in a gap.

--- @include _value

local value = redis.call('GET', KEYS[1])
local keep = tonumber(ARGV[2])
local last = tonumber(redis.call('HGET', KEYS[2], 'fence') or '0') or 0
if value then
  local id, fence = parse(value)
  if id ~= ARGV[1] then return { redis.call('PTTL', KEYS[1]), now, shown(value) } end
  lasts(KEYS[1], keep)
  lasts(KEYS[2], keep + ARGV[5])
  return fence
end
local gap = tonumber(ARGV[6])
if gap > 0 then
  local since = now - (tonumber(redis.call('HGET', KEYS[2], 'left') or '') or 0)
  if since >= 0 and since < gap then return { gap - since, now, '' } end
end
local fence = math.max(last + 1, us)
if fence <= last then return redis.error_reply('HOLDFAST the fences of this lock are used up') end
local text = string.format('%.0f', fence)
redis.call('SET', KEYS[1], table.concat({ 'holdfast', ARGV[1], text, now, ARGV[3], ARGV[4], ARGV[7] }, ':'), 'PX', keep)
redis.call('HSET', KEYS[2], 'fence', text)
lasts(KEYS[2], keep + ARGV[5])
return text

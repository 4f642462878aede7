-- The permits of a semaphore are the members of a sorted set, by the time at which each was taken or renewed. Others write their own clock's time,
-- in whole milliseconds, and end every permit that is older than their own lasts. Ours say behind the point how long they last, so that one that
-- lasts longer is not ended by one of ours that lasts less.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- A double of such a time has 11 bits behind the point until the year 2109: 32 steps from one power of two to the next.
local STEPS, PARTS = 32, 2048

local function score(keep)
  return string.format('%.6f', now + math.ceil(math.log(math.max(keep, 1)) / math.log(2) * STEPS) / PARTS)
end

local function expire(key, keep)
  local found = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES')
  for i = 1, #found, 2 do
    local taken, said = math.modf(tonumber(found[i + 1]))
    local lasts = said > 0 and 2 ^ (said * PARTS / STEPS) or keep
    if taken + lasts <= now then redis.call('ZREM', key, found[i]) end
  end
end

-- Never sooner than the longest of those who have permits needs it.
local function lasts(key, keep)
  if redis.call('PTTL', key) < keep then redis.call('PEXPIRE', key, keep) end
end

-- The permits of a semaphore are the members of a sorted set, by the time at which each was taken or renewed. Others write their own clock's time.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function expire(key, keep) redis.call('ZREMRANGEBYSCORE', key, '-inf', now - keep) end

-- Never sooner than the longest of those who have permits needs it.
local function lasts(key, keep)
  if redis.call('PTTL', key) < keep then redis.call('PEXPIRE', key, keep) end
end

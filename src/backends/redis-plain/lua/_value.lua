-- The value of a lock's key, and what of it is shown. Ours is holdfast:<id>:<fence>:<since>:<minHold>:<lockDelay>:<who>; id "-": a minHold's rest.

local function parse(value)
  if not value then return nil end
  return string.match(value, '^holdfast:([%w_-]+):(%d+):(%d+):(%d+):(%d+):(.*)$')
end

-- Who knows a value can release the lock: neither an id of ours nor a foreign value leaves the server.
local function shown(value)
  local id, fence, since, hold, delay, who = parse(value)
  if id then
    local whose = id == '-' and 'kept' or 'ours'
    return table.concat({ whose, fence, since, hold, delay, who }, ':')
  end
  local looks = #value >= 16 and #value <= 128 and string.match(value, '^[%w+/=_.@:-]+$') and string.match(value, '%a') and '1' or '0'
  return 'other:' .. #value .. ':' .. looks .. ':' .. string.sub(string.gsub(value, '[^%w]', '.'), 1, 4)
end

local function lasts(key, keep)
  local left = redis.call('PTTL', key)
  if left < keep then redis.call('PEXPIRE', key, keep) end
end

local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local now = math.floor(us / 1000)

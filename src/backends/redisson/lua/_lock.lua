-- A lock of Redisson: a hash of owners and how often each holds it; of a read-write lock with the field "mode". Our notes lie beside it.

-- Stands in for the owner while a minHold lasts.
local KEPT = '00000000-0000-0000-0000-000000000000:0'
local OWNERS_MAX = 10000
local COUNTS_MAX = 100

local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local now = math.floor(us / 1000)

-- What the key is: "free", "lock", "read" or "write", its owners, and how often each holds it. "other": no lock of Redisson.
local function look(key)
  if redis.call('EXISTS', key) == 0 then return 'free', {}, {} end
  if redis.call('HLEN', key) > OWNERS_MAX then return 'other', {}, {} end
  local all = redis.call('HGETALL', key)
  local mode, owners, counts = 'lock', {}, {}
  for i = 1, #all, 2 do
    local field, value = all[i], all[i + 1]
    if field == 'mode' and (value == 'read' or value == 'write') then
      mode = value
    elseif string.match(field, '.:%-?%d+$') or string.match(field, '.:%-?%d+:write$') then
      if #value > 9 or not string.match(value, '^%d+$') then return 'other', {}, {} end
      owners[#owners + 1] = field
      counts[field] = tonumber(value)
    else
      return 'other', {}, {}
    end
  end
  if #owners == 1 or mode ~= 'lock' and #owners > 1 then return mode, owners, counts end
  return 'other', {}, {}
end

local function deadline(start, owner, i)
  return start .. ':' .. owner .. ':rwlock_timeout:' .. i
end

-- How long the reader still holds, ms. Not above 0: its time is over.
local function reads(start, owner, count)
  local longest = -2
  for i = count, math.max(1, count - COUNTS_MAX), -1 do
    longest = math.max(longest, redis.call('PTTL', deadline(start, owner, i)))
  end
  return longest
end

local function lasts(key, keep)
  if redis.call('PTTL', key) < keep then redis.call('PEXPIRE', key, keep) end
end

-- What we noted of an owner: fence, since when, its minHold, its lockDelay, and who it is. Nothing: it is not ours.
local function noted(notes, owner)
  return string.match(redis.call('HGET', notes, 'h:' .. owner) or '', '^(%d+):(%d+):(%d+):(%d+):(.*)$')
end

-- What may be shown: now, how long until the key expires (-1: never), the token, and three for each owner: whose it is, for how long, and what
-- was noted of it, or its field. The fields of ours do not leave the server: who knows one can release the lock.
local function shown(key, notes, token, start, most)
  local mode, owners, counts = look(key)
  local left = redis.call('PTTL', key)
  local count = token and redis.pcall('GET', token)
  local reply = { now, left, type(count) == 'string' and count or '', mode }
  for i = 1, math.min(#owners, most) do
    local owner = owners[i]
    local rest = left
    if mode == 'read' then
      local longest = reads(start, owner, counts[owner])
      rest = left < 0 and longest or math.min(left, longest)
    end
    if (mode ~= 'read' or rest > 0) and (mode ~= 'write' or string.match(owner, ':write$')) then
      local whose, text = 'other', owner
      if noted(notes, owner) then
        whose = string.sub(owner, 1, #KEPT) == KEPT and 'kept' or 'ours'
        text = redis.call('HGET', notes, 'h:' .. owner)
      end
      reply[#reply + 1] = whose
      reply[#reply + 1] = rest
      reply[#reply + 1] = text
    end
  end
  return reply
end

-- How many more heard it on the channel than there are of ours, who also listen to another one.
local function foreign(publish, count, channel, ours, text)
  -- That Java is not woken must be noticed; a server before Redis 7 knows no sharded channels.
  local heard = publish == 'PUBLISH' and redis.call(publish, channel, text) or redis.pcall(publish, channel, text)
  local known = redis.pcall('PUBSUB', count, ours)
  return (type(heard) == 'number' and heard or 0) - (tonumber(known[2]) or 0)
end

-- Takes the owner out. When nobody is left the lock is deleted, and who waits is woken as Redisson does. It is noted if others than ours wait.
local function leave(key, notes, owner, start, channel, sharded)
  local mode, owners, counts = look(key)
  redis.call('HDEL', key, owner)
  if mode == 'read' then
    redis.call('DEL', deadline(start, owner, 1))
    local longest = -2
    for _, other in ipairs(owners) do
      if other ~= owner then longest = math.max(longest, reads(start, other, counts[other])) end
    end
    if longest > 0 then
      redis.call('PEXPIRE', key, longest)
      return
    end
  elseif mode == 'other' or #owners > 1 then
    -- Another program has written here, and what is its own stays.
    return
  end
  redis.call('DEL', key)
  local text = mode == 'write' and '1' or '0'
  local others = foreign('PUBLISH', 'NUMSUB', channel, notes, text)
  if sharded == '1' then others = others + foreign('SPUBLISH', 'SHARDNUMSUB', channel, notes, text) end
  if others > 0 then redis.call('HSET', notes, 'left', now) end
end

-- A lock of Redisson: a hash with a field for each holder, and how often it holds; of a read-write lock also the field "mode". Our notes lie beside it.

-- Stands in for the holder while a minHold lasts.
local KEPT = '00000000-0000-0000-0000-000000000000:0'
local FIELDS_MAX = 10000
local COUNTS_MAX = 100
local GAP_DOUBLED_MAX = 3

local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local now = math.floor(us / 1000)

-- What the key is: "free", "lock", "read" or "write", the fields of its holders, and how often each holds it. "other": no lock of Redisson.
local function look(key)
  if redis.call('EXISTS', key) == 0 then return 'free', {}, {} end
  if redis.call('HLEN', key) > FIELDS_MAX then return 'other', {}, {} end
  local mode, fields, counts = 'lock', {}, {}
  -- One by one: the values of what is no lock may be large, and are not read.
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if field == 'mode' then
      mode = redis.call('HGET', key, field)
      if mode ~= 'read' and mode ~= 'write' then return 'other', {}, {} end
    elseif string.match(field, '.:%-?%d+$') or string.match(field, '.:%-?%d+:write$') then
      local value = redis.call('HGET', key, field)
      if #value > 9 or not string.match(value, '^%d+$') then return 'other', {}, {} end
      fields[#fields + 1] = field
      counts[field] = tonumber(value)
    else
      return 'other', {}, {}
    end
  end
  if #fields == 1 or mode ~= 'lock' and #fields > 1 then return mode, fields, counts end
  return 'other', {}, {}
end

local function deadline(start, field, i)
  return start .. ':' .. field .. ':rwlock_timeout:' .. i
end

-- How long the reader still holds, ms. Not above 0: its time is over.
local function reads(start, field, count)
  local longest = -2
  for i = count, math.max(1, count - COUNTS_MAX), -1 do
    longest = math.max(longest, redis.call('PTTL', deadline(start, field, i)))
  end
  return longest
end

local function lasts(key, keep)
  if redis.call('PTTL', key) < keep then redis.call('PEXPIRE', key, keep) end
end

-- What we noted of a holder: fence, since when, its minHold, its lockDelay, and who it is. Nothing: it is not ours.
local function noted(notes, field)
  return string.match(redis.call('HGET', notes, 'h:' .. field) or '', '^(%d+):(%d+):(%d+):(%d+):(.*)$')
end

-- The token of a holder in Java, or "". The one that a holder of ours was given last is not its own: as an RLock it was given none.
local function theirs(notes, token)
  local count = token and redis.pcall('GET', token)
  return type(count) == 'string' and count ~= redis.call('HGET', notes, 'token') and count or ''
end

-- What may be shown: now, how long until the key expires (-1: never), the token, and three for each holder: whose it is, for how long, and what
-- was noted of it, or its field. The fields of ours do not leave the server: who knows one can release the lock.
local function shown(key, notes, token, start, most)
  local mode, fields, counts = look(key)
  local left = redis.call('PTTL', key)
  local reply = { now, left, theirs(notes, token), mode }
  for i = 1, math.min(#fields, most) do
    local field = fields[i]
    local rest = left
    if mode == 'read' then
      local longest = reads(start, field, counts[field])
      rest = left < 0 and longest or math.min(left, longest)
    end
    if (mode ~= 'read' or rest > 0) and (mode ~= 'write' or string.match(field, ':write$')) then
      local whose, text = 'other', field
      if noted(notes, field) then
        whose = string.sub(field, 1, #KEPT) == KEPT and 'kept' or 'ours'
        text = redis.call('HGET', notes, 'h:' .. field)
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

-- Wakes those who wait, as Redisson does. Returns how many of them are not ours.
local function report(notes, channel, sharded, text)
  local others = foreign('PUBLISH', 'NUMSUB', channel, notes, text)
  if sharded == '1' then others = others + foreign('SPUBLISH', 'SHARDNUMSUB', channel, notes, text) end
  return others
end

-- Takes the holder out. With the last one the lock is deleted, and who waits is woken as Redisson does. It is noted if others than ours wait.
local function leave(key, notes, field, start, channel, sharded)
  local mode, fields, counts = look(key)
  redis.call('HDEL', key, field)
  if mode == 'read' then
    redis.call('DEL', deadline(start, field, 1))
    local longest = -2
    for _, other in ipairs(fields) do
      if other ~= field then longest = math.max(longest, reads(start, other, counts[other])) end
    end
    if longest > 0 then
      redis.call('PEXPIRE', key, longest)
      return
    end
  elseif mode == 'other' or #fields > 1 then
    -- Another program has written here, and what is its own stays.
    return
  end
  redis.call('DEL', key)
  if report(notes, channel, sharded, mode == 'write' and '1' or '0') <= 0 then
    redis.call('HDEL', notes, 'left', 'turns')
  else
    redis.call('HSET', notes, 'left', now)
    redis.call('HINCRBY', notes, 'turns', 1)
    -- Where there were no notes before.
    lasts(notes, 60000)
  end
end

-- Ends the claim, held or queued, and grants the lock to the next waiters in the same step.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the claim's id
-- ARGV[2] the quarantine (see _identity); absent without
--
-- Returns 1 when the claim was held, 2 when it was queued, 0 when the lock knew nothing of it; and 4 more when there are more
-- lapsed tickets than one call may pass over, so that another should follow.

-- The usual case comes first and alone: the claim is the only one here, and its release needs nothing special.
local state = redis.call('HGET', KEYS[1], 's')
local alone = ' =' .. ARGV[1] .. ' '
local flag = state and string.sub(state, 31, 30 + #alone) == alone and string.sub(state, 76 + #alone, 76 + #alone)
if flag == '.' or flag == 'v' then
  local time = redis.call('TIME')
  local ended = string.sub(state, 31 + #alone, 43 + #alone) > time[1] .. string.sub('00000' .. time[2], -6, -4)
  local done = redis.pcall('HSET', KEYS[1], 's', string.sub(state, 1, 30))
  if type(done) == 'table' then
    -- A full server (noeviction) takes no new data, but does after a deletion in the same script.
    redis.call('HDEL', KEYS[1], '-')
    redis.call('HSET', KEYS[1], 's', string.sub(state, 1, 30))
  end
  if ended and flag == 'v' then redis.call('PUBLISH', KEYS[1], 'freed') end
  return ended and 1 or 0
end

-- The usual case of a lock that is wanted by many: the only holder leaves, and a waiter like it that is alive is the next.
local latest, queued, head, tail
if state and not ARGV[2] and state < '9007199250000000' and string.byte(state, 17) == 32 then
  latest, queued, head, tail = string.match(state, '^%d+ %d+ 1 x 1 %d+ (%S+) (%d+) (%d+) (%d+)$')
end
if latest == ARGV[1] and queued ~= '0' then
  local fields = redis.call('HMGET', KEYS[1], 'h' .. latest, 'q' .. head)
  local held, id = fields[1], fields[2]
  local waits = held and id and redis.call('HGET', KEYS[1], 'w' .. id)
  local ttl, delay, ticket, inbox
  -- What does not look as ours do is for the long way to judge.
  if waits and string.byte(held, 46) == 46 and string.byte(waits, 47) == 120
    and tonumber(string.sub(waits, 1, 13)) and tonumber(string.sub(waits, 62, 67)) then
    ttl, delay, ticket, inbox = string.match(waits, '^1 (%d+) (%d+) (%d+) %d+ (%S+) ', 82)
  end
  local time = redis.call('TIME')
  local micros = string.sub('00000' .. time[2], -6)
  local now = time[1] .. string.sub(micros, 1, 3)
  -- Who finds a marker goes the long way.
  if ttl and redis.pcall('EXISTS', KEYS[2] or string.match(KEYS[1], '^.-:{%x%x}')) ~= 1 and string.sub(held, 1, 13) > now and string.sub(waits, 1, 13) > now then
    -- As promote() in _lock does it.
    local heard = redis.call('PUBSUB', 'NUMSUB', inbox)[2] > 0
    local till = string.sub(waits, 1, 13) + delay
    till = string.format('%013.0f', heard and till - ticket + ttl or till)
    local fence, last, more = time[1] .. micros, string.sub(state, 1, 16), string.sub(waits, 62, 67)
    if fence <= last then
      fence = string.format('%016.0f', last + 1)
      if string.sub(held, 15, 27) >= now then more = '000000' elseif more > '000499' then more = '000499' end
    end
    redis.call('HDEL', KEYS[1], 'h' .. latest, 'w' .. id, 'q' .. head)
    if queued == '1' then head, tail = 0, 0 end
    redis.call('HSET', KEYS[1],
      'h' .. id, till .. ' ' .. now .. ' ' .. fence .. string.sub(waits, 45, 61) .. more .. string.sub(waits, 68),
      's', string.format('%016.0f%s 1 x 1 %s %s %d %d %s', fence + more, string.sub(state, 17, 30), till, id, queued - 1, head + 1, tail))
    local news = (heard and ':' or '?') .. fence .. '+' .. more
    redis.call('PUBLISH', inbox, 'granted ' .. string.sub(id, 1, 8) .. news .. '.' .. string.sub(redis.sha1hex(id .. news), 1, 20))
    return 1
  end
end

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _queue
--- @include _leave

local lock = open(KEYS[1], ARGV[1])
if not lock then return redis.error_reply('HOLDFAST_FOREIGN') end
local ended = leave(lock, ARGV[1])
local waited_for = lock.queued > 0
if waited_for then
  local young = young_at(lock, marker_of(KEYS[1], KEYS[2]), ARGV[2], now)
  prune(lock)
  if young == 0 then promote(lock) end
end
if ended > 0 or waited_for then close(lock) end
return lock.busy and ended + 4 or ended

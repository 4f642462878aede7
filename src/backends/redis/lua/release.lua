-- Ends the claim, held or queued, and grants the lock to the next waiters in the same step.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the claim's id, and "!" if its minHold counts
-- ARGV[2] the quarantine (see _identity); absent without
--
-- Returns 1 when the claim was held, 2 when it was queued, 0 when the lock knew nothing of it; and 4 more when there are more
-- lapsed tickets than one call may pass over, so that another should follow.

-- The usual case comes first and alone: the claim is the only one here, and its release needs nothing special.
local call, match, sub = redis.call, string.match, string.sub
local state = call('HGET', KEYS[1], 's')
local alone = ' =' .. ARGV[1] .. ' '
local flag = state and sub(state, 31, 30 + #alone) == alone and sub(state, 76 + #alone, 76 + #alone)
if flag == '.' or flag == 'v' then
  local time = call('TIME')
  local ends = sub(state, 31 + #alone, 43 + #alone)
  -- The second is nearly always enough.
  local ended = ends > time[1] .. '999' or ends > time[1] .. sub('00000' .. time[2], -6, -4)
  local empty = sub(state, 1, 30)
  local done = redis.pcall('HSET', KEYS[1], 's', empty)
  if type(done) == 'table' then
    -- A full server (noeviction) takes no new data, but does after a deletion in the same script.
    call('HDEL', KEYS[1], '-')
    call('HSET', KEYS[1], 's', empty)
  end
  if ended and flag == 'v' then call('PUBLISH', KEYS[1], 'freed') end
  return ended and 1 or 0
end

-- The usual case of a lock that is wanted by many: the only holder leaves, and a waiter like it that is alive is the next.
local last, death, latest, queued, head, tail
if state and not ARGV[2] and state < '9007199250000000' then
  last, death, latest, queued, head, tail = match(state, '^(%d+) (%d+) 1 x 1 %d+ (%S+) (%d+) (%d+) (%d+)$')
end
if latest == ARGV[1] and queued ~= '0' and #last == 16 and #death == 13 then
  local fields = call('HMGET', KEYS[1], 'h' .. latest, 'q' .. head)
  local held, id = fields[1], fields[2]
  local waits = held and id and call('HGET', KEYS[1], 'w' .. id)
  local ticket_ends, at, more, ttl, delay, ticket, inbox
  if waits and string.byte(held, 46) == 46 then
    ticket_ends, at, more, ttl, delay, ticket, inbox =
      match(waits, '^(%d+) %d+ %d+ .x %d+ ()(%d+) %d+ 1 (%d+) (%d+) (%d+) %d+ (%S+) ')
  end
  local time = call('TIME')
  local seconds, micros = time[1], time[2]
  if #micros < 6 then micros = sub('00000' .. micros, -6) end
  local now = seconds .. sub(micros, 1, 3)
  -- What does not look as ours do is for the long way to judge, and who finds a marker goes it too.
  if at == 62 and #more == 6 and #ticket_ends == 13 and ticket_ends > now and sub(held, 1, 13) > now
    and redis.pcall('EXISTS', KEYS[2] or match(KEYS[1], '^.-:{%x%x}')) ~= 1 then
    -- As promote() in _queue does it.
    local heard = call('PUBSUB', 'NUMSUB', inbox)[2] > 0
    local till = ticket_ends + delay
    till = string.format('%013.0f', heard and till - ticket + ttl or till)
    local fence = seconds .. micros
    local low = micros + more
    if fence <= last then
      fence = string.format('%016.0f', last + 1)
      if sub(held, 15, 27) >= now then more = '000000' elseif more > '000499' then more = '000499' end
      low = 1000000
    end
    last = low < 1000000 and seconds .. string.format('%06d', low) or string.format('%016.0f', fence + more)
    call('HDEL', KEYS[1], 'h' .. latest, 'w' .. id, 'q' .. head)
    if queued == '1' then head, tail = 0, '0' end
    call('HSET', KEYS[1],
      'h' .. id, till .. ' ' .. now .. ' ' .. fence .. sub(waits, 45, 61) .. more .. sub(waits, 68),
      's', last .. ' ' .. death .. ' 1 x 1 ' .. till .. ' ' .. id
        .. string.format(' %d %d ', queued - 1, head + 1) .. tail)
    local news = (heard and ':' or '?') .. fence .. '+' .. more
    local seal = sub(redis.sha1hex(id .. news), 1, 20)
    call('PUBLISH', inbox, 'granted ' .. sub(id, 1, 8) .. news .. '.' .. seal)
    return 1
  end
end

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _queue
--- @include _leave

local id, keeps = leaving(ARGV[1])
local lock = open(KEYS[1], id)
if not lock then return redis.error_reply('HOLDFAST_FOREIGN') end
local ended = leave(lock, id, keeps)
local waited_for = lock.queued > 0
if waited_for then
  local young = young_at(lock, marker_of(KEYS[1], KEYS[2]), ARGV[2], now)
  prune(lock)
  if young == 0 then promote(lock) end
end
if ended > 0 or waited_for then close(lock) end
return lock.busy and ended + 4 or ended

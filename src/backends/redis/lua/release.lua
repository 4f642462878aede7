-- Ends the claim, held or queued, and grants the lock to the next waiters in the same step.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the claim's id, and "!" if its minHold counts
-- ARGV[2] the quarantine (see _identity); absent without
--
-- Returns 1 if the claim was held, 2 if it was queued, 0 if the lock did not know it; plus 4 if there are more lapsed tickets than
-- one call may skip, so another should follow.

-- The usual case comes first: the claim is the only one, and its release needs nothing special.
local call, match, sub = redis.call, string.match, string.sub
local state = call('HGET', KEYS[1], FIELD.state)
local alone = MARK.alone .. ARGV[1] .. ' '
local flag = state and sub(state, STATE.width + 1, STATE.width + #alone) == alone
  and sub(state, STATE.width + RECORD.flag.from + #alone, STATE.width + RECORD.flag.to + #alone)
if flag == FLAG.plain or flag == FLAG.voted then
  local time = call('TIME')
  local ends = sub(state, STATE.width + RECORD.till.from + #alone, STATE.width + RECORD.till.to + #alone)
  -- The seconds are nearly always enough.
  local ended = ends > time[1] .. '999' or ends > time[1] .. sub('00000' .. time[2], -6, -4)
  local empty = sub(state, STATE.whole)
  local done = redis.pcall('HSET', KEYS[1], FIELD.state, empty)
  if type(done) == 'table' then
    -- A full server (noeviction) accepts no new data, except after a deletion in the same script.
    call('HDEL', KEYS[1], FIELD.none)
    call('HSET', KEYS[1], FIELD.state, empty)
  end
  if ended and flag == FLAG.voted then call('PUBLISH', KEYS[1], WORD.freed) end
  return ended and 1 or 0
end

-- The usual case of a lock that is wanted by many: the only holder leaves, and a waiter like it that is alive is the next.
--- @needs STATE.last.from = 1
local last, death, latest, queued, head, tail
if state and not ARGV[2] and state < LIMIT.fence.text then
  last, death, latest, queued, head, tail = match(state, STATE_CROWD.pattern{
    holders = '1', mode = MODE.exclusive, limit = '1',
  })
end
if latest == ARGV[1] and queued ~= '0' and #last == STATE.last.width and #death == STATE.death.width then
  local fields = call('HMGET', KEYS[1], FIELD.holder .. latest, FIELD.place .. head)
  local held, id = fields[1], fields[2]
  local waits = held and id and call('HGET', KEYS[1], FIELD.waiter .. id)
  local ticket_ends, more_at, more, ttl, delay, ticket, inbox
  if waits and string.byte(held, RECORD.flag.from) == FLAG.plain.byte then
    ticket_ends, more_at, more, ttl, delay, ticket, inbox =
      match(waits, RECORD.pattern{ till = ticket_ends, mode = MODE.exclusive, limit = '1' })
  end
  local time = call('TIME')
  local seconds, micros = time[1], time[2]
  if #micros < 6 then micros = sub('00000' .. micros, -6) end
  local now = seconds .. sub(micros, 1, 3)
  -- What does not look as ours do is for the long way to judge, and who finds a marker goes it too.
  if more_at == RECORD.more.from and #more == RECORD.more.width and #ticket_ends == RECORD.till.width
    and ticket_ends > now and sub(held, RECORD.till) > now
    and not (string.byte(waits, -1) == MARK.wants.byte and call('HGET', KEYS[1], FIELD.outcome))
    and redis.pcall('EXISTS', KEYS[2] or match(KEYS[1], '^.-:{%x%x}')) ~= 1 then
    -- As promote() in _queue does it.
    local heard = call('PUBSUB', 'NUMSUB', inbox)[2] > 0
    local till = ticket_ends + delay
    till = string.format(RECORD.till.format, heard and till - ticket + ttl or till)
    local fence = seconds .. micros
    local low = micros + more
    if fence <= last then
      fence = string.format(STATE.last.format, last + 1)
      if sub(held, RECORD.since) >= now then more = RECORD.more.zero elseif more > '000499' then more = '000499' end
      low = 1000000
    end
    last = low < 1000000 and seconds .. string.format('%06d', low) or string.format(STATE.last.format, fence + more)
    call('HDEL', KEYS[1], FIELD.holder .. latest, FIELD.waiter .. id, FIELD.place .. head)
    if queued == '1' then head, tail = 0, '0' end
    call('HSET', KEYS[1],
      FIELD.holder .. id, RECORD.text{
        till = till, since = now, number = fence,
        terms = sub(waits, RECORD.terms.from, RECORD.more.from - 1) .. more .. sub(waits, RECORD.more.to + 1),
      },
      FIELD.state, STATE_CROWD.text{
        last = last, death = death, holders = '1', mode = MODE.exclusive, limit = '1', first = till, latest = id,
        queued = small(queued - 1), head = small(head + 1), tail = tail,
      })
    local news = (heard and MARK.sure or MARK.asked) .. RUN.text{ fence = fence, more = more }
    local seal = sub(redis.sha1hex(id .. news), 1, LIMIT.seal)
    local wanted = queued ~= '1' and ',' .. MARK.wanted or ''
    call('PUBLISH', inbox, WORD.granted .. sub(id, 1, LIMIT.shown) .. news .. MARK.seal .. seal .. wanted)
    return 1
  end
end

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _mail
--- @include _outcome
--- @include _queue
--- @include _leave

local id, keeps = leaving(ARGV[1])
local lock = open(KEYS[1], id)
if not lock then return redis.error_reply(WORD.foreign) end
local ended = leave(lock, id, keeps)
local waited_for = lock.queued > 0
if waited_for then
  local young = young_at(lock, marker_of(KEYS[1], KEYS[2]), ARGV[2], now)
  prune(lock)
  if young == 0 then promote(lock) end
end
if ended > 0 or waited_for then close(lock) end
return lock.busy and ended + 4 or ended

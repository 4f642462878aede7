-- Grants the claim if it may hold the lock now; otherwise queues it if its terms have a ticket.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the claim's id
-- ARGV[2] the claim's terms
-- ARGV[3] the quarantine (see _identity); absent without
--
-- Returns a GRANTED, or a REFUSAL (see wire.ts).

-- The usual case comes first, because it is the cost of an uncontended lock: no holder, no waiter, and an exclusive claim with limit 1.
-- With a marker, the long way is taken. Numbers stay texts as long as possible: a conversion, or a value in a format, costs as much as
-- a read of the store.
local call, match, sub = redis.call, string.match, string.sub
local id, terms = ARGV[1], ARGV[2]
local state = call('HGET', KEYS[1], FIELD.state)
if not state and call('EXISTS', KEYS[1]) == 0 then state = STATE.zero end
--- @needs STATE.last.from = 1
local plain = state and not ARGV[3] and state < LIMIT.fence.text
  and not (string.byte(terms, -1) == MARK.wants.byte and call('HGET', KEYS[1], FIELD.outcome))
  and redis.pcall('EXISTS', KEYS[2] or match(KEYS[1], '^.-:{%x%x}')) ~= 1
if plain and #state == STATE.width then
  local last, death = match(state, STATE.pattern{})
  local keep, more, idle = match(terms, TERMS.pattern{ mode = MODE.exclusive, limit = '1' })
  if keep and last and #last == STATE.last.width then
    local time = call('TIME')
    local seconds, micros = time[1], time[2]
    if #micros < 6 then micros = sub('00000' .. micros, -6) end
    local now, fence = seconds .. sub(micros, 1, 3), seconds .. micros
    local low = micros + more
    if fence <= last then
      -- The counter is ahead of the clock: one fence at a time until the clock has caught up (see _lock).
      fence, more = string.format(STATE.last.format, last + 1), TERMS.more.zero
      last, terms = fence, TERMS.replace(terms, more, more)
    elseif low < 1000000 then
      last = seconds .. string.format('%06d', low)
    else
      last = string.format(STATE.last.format, fence + more)
    end
    local till = now + keep
    local moved = till + idle - death > 0
    if moved then death = string.format(STATE.death.format, till + idle + math.floor(idle / 2)) end
    call('HSET', KEYS[1], FIELD.state, STATE_ALONE.text{
      last = last, death = death, id = id, till = till, since = now, number = fence, terms = terms,
    })
    if moved then call('PEXPIREAT', KEYS[1], death) end
    return RUN.text{ fence = fence, more = more }
  end
end

-- The usual case of a contended lock: it has one exclusive holder, and the claim joins the end of the queue.
local keep, idle, ticket
if plain and #state > STATE.width then
  keep, idle, ticket = match(terms, TERMS.pattern{ mode = MODE.exclusive, limit = '1', ticket = '[1-9]%d*' })
end
if ticket then
  local record, known
  local last, death, first, latest, queued, head, tail =
    match(state, STATE_CROWD.pattern{ holders = '1', mode = MODE.exclusive, limit = '1' })
  local alone = not first
  if first then
    local fields = call('HMGET', KEYS[1], FIELD.holder .. latest, FIELD.holder .. id, FIELD.waiter .. id)
    record, known = fields[1], fields[2] or fields[3]
  else
    last, death, latest, record, first = match(state, STATE_ALONE.pattern{ id = latest, till = first })
    queued, head, tail = '0', '1', '0'
    known = latest == id or not latest or string.byte(record, RECORD.mode.from) ~= MODE.exclusive.byte
      or sub(record, RECORD.limit.from - 1, RECORD.limit.from + 1) ~= ' 1 '
  end
  local time = call('TIME')
  local now = time[1] .. sub('00000' .. time[2], -6, -4)
  -- Anything unusual is left to the long way.
  if first and record and not known and #first == RECORD.till.width and first > now
    and #last == STATE.last.width and #death == STATE.death.width and #tail < 15 then
    local place, ahead = tail + 1, first - now
    local needed = now + keep + idle
    if needed - death > 0 then
      death = string.format(STATE.death.format, needed + math.floor(idle / 2))
      call('PEXPIREAT', KEYS[1], death)
    end
    local fields = {
      FIELD.waiter .. id, RECORD.text{ till = digits(now + ticket), since = now, number = small(place), terms = terms },
      FIELD.place .. place, id,
      FIELD.state, STATE_CROWD.text{
        last = last, death = death, holders = '1', mode = MODE.exclusive, limit = '1', first = first, latest = latest,
        queued = small(queued + 1), head = head, tail = small(place),
      },
    }
    -- Without waiters, the holder's record was in the state.
    if alone then fields[7], fields[8] = FIELD.holder .. latest, record end
    -- Refused by a full server (noeviction): then the long way, which may be accepted.
    if type(redis.pcall('HSET', KEYS[1], unpack(fields))) == 'number' then
      -- The queue begins: as tell_holders() in _wanted does it.
      if queued == '0' and string.byte(latest) ~= 126 then
        local inbox = match(record, RECORD.pattern{})
        local seal = sub(redis.sha1hex(latest .. MARK.wanted), 1, LIMIT.seal)
        if inbox then call('PUBLISH', inbox, WORD.wanted .. sub(latest, 1, LIMIT.shown) .. MARK.wanted .. MARK.seal .. seal) end
      end
      return REFUSAL.reply{
        place = queued + 1, ahead = ahead, now = now, record = record,
        learned = LEARNED.text{ last = last, again = queued == '0' and ahead or '0', by = '' },
      }
    end
  end
end

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _mail
--- @include _outcome
--- @include _queue
--- @include _wanted
--- @include _enter

-- Who wants an outcome, and is neither in nor in the queue, changes nothing.
if wants(terms) then
  local fields = call('HMGET', KEYS[1], FIELD.outcome, FIELD.holder .. id, FIELD.waiter .. id)
  local alone = MARK.alone .. id .. ' '
  local known = fields[2] or fields[3] or sub(state or '', STATE.width + 1, STATE.width + #alone) == alone
  local outcome = not known and outcome_in(fields[1])
  if outcome then return REFUSAL.reply{ place = 0, ahead = 0, now = now_text, record = WORD.done, learned = outcome } end
end

local lock = open(KEYS[1], id)
if not lock then return redis.error_reply(WORD.foreign) end
local young = young_at(lock, marker_of(KEYS[1], KEYS[2]), ARGV[3], now)
if lock.cut_off then return redis.error_reply(CUT_OFF) end
return enter(lock, id, parse(terms), young)

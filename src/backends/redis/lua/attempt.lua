-- Grants the claim if it may hold the lock now, else queues it if its terms have a ticket.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the claim's id
-- ARGV[2] the claim's terms
-- ARGV[3] the quarantine (see _identity); absent without
--
-- Returns "<fence>+<how many more are in its run>", or { place, ms until the earliest end, now, a holder's record, what a
-- waiter learns }.

-- The usual case comes first and alone, because it is what an uncontended lock costs: nobody holds or waits, and the claim
-- is exclusive with limit 1. Who finds a marker goes the long way. Numbers stay texts as long as they can: a conversion, or a
-- piece in a format, costs as much as a look into the store.
local call, match, sub = redis.call, string.match, string.sub
local id, terms = ARGV[1], ARGV[2]
local state = call('HGET', KEYS[1], 's')
if not state and call('EXISTS', KEYS[1]) == 0 then state = '0000000000000000 0000000000000' end
local plain = state and not ARGV[3] and state < '9007199250000000'
  and redis.pcall('EXISTS', KEYS[2] or match(KEYS[1], '^.-:{%x%x}')) ~= 1
if plain and #state == 30 then
  local last, death = match(state, '^(%d+) (%d+)$')
  local keep, more, idle = match(terms, '^.x (%d+) (%d+) (%d+) 1 ')
  if keep and last and #last == 16 then
    local time = call('TIME')
    local seconds, micros = time[1], time[2]
    if #micros < 6 then micros = sub('00000' .. micros, -6) end
    local now, fence = seconds .. sub(micros, 1, 3), seconds .. micros
    local low = micros + more
    if fence <= last then
      -- The counter is ahead of the clock: one fence at a time until the clock has caught up (see _lock).
      fence, more = string.format('%016.0f', last + 1), '000000'
      last, terms = fence, sub(terms, 1, 16) .. more .. sub(terms, 23)
    elseif low < 1000000 then
      last = seconds .. string.format('%06d', low)
    else
      last = string.format('%016.0f', fence + more)
    end
    local till = now + keep
    local moved = till + idle - death > 0
    if moved then death = string.format('%013.0f', till + idle + math.floor(idle / 2)) end
    call('HSET', KEYS[1], 's', last .. ' ' .. death .. ' =' .. id .. ' ' .. till .. ' ' .. now .. ' ' .. fence
      .. ' ' .. terms)
    if moved then call('PEXPIREAT', KEYS[1], death) end
    return fence .. '+' .. more
  end
end

-- The usual case of a lock that is wanted by many: one holds it alone, and the claim joins the queue behind the others.
local keep, idle, ticket
if plain and #state > 30 then keep, idle, ticket = match(terms, '^.x (%d+) %d+ (%d+) 1 %d+ %d+ ([1-9]%d*) ') end
if ticket then
  local record, known
  local last, death, first, latest, queued, head, tail =
    match(state, '^(%d+) (%d+) 1 x 1 (%d+) (%S+) (%d+) (%d+) (%d+)$')
  local alone = not first
  if first then
    local fields = call('HMGET', KEYS[1], 'h' .. latest, 'h' .. id, 'w' .. id)
    record, known = fields[1], fields[2] or fields[3]
  else
    last, death, latest, record, first = match(state, '^(%d+) (%d+) =(%S+) ((%d+) .*)$')
    queued, head, tail = '0', '1', '0'
    known = latest == id or not latest or string.byte(record, 47) ~= 120 or sub(record, 81, 83) ~= ' 1 '
  end
  local time = call('TIME')
  local now = time[1] .. sub('00000' .. time[2], -6, -4)
  -- What does not look as ours do is for the long way to judge.
  if first and record and not known and #first == 13 and first > now and #last == 16 and #death == 13 and #tail < 15 then
    local place, ahead = tail + 1, first - now
    local needed = now + keep + idle
    if needed - death > 0 then
      death = string.format('%013.0f', needed + math.floor(idle / 2))
      call('PEXPIREAT', KEYS[1], death)
    end
    local fields = {
      'w' .. id, string.format('%013.0f %s %016d ', now + ticket, now, place) .. terms, 'q' .. place, id,
      's', last .. ' ' .. death .. ' 1 x 1 ' .. first .. ' ' .. latest
        .. string.format(' %d %s %d', queued + 1, head, place),
    }
    -- Of a holder that nobody waited for, the record was in the state.
    if alone then fields[7], fields[8] = 'h' .. latest, record end
    -- Refused by a full server (noeviction): then the long way, which may know better.
    if type(redis.pcall('HSET', KEYS[1], unpack(fields))) == 'number' then
      return { queued + 1, ahead, now, record, '=' .. last .. (queued == '0' and ' ' .. ahead or ' 0') }
    end
  end
end

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _queue
--- @include _enter

local lock = open(KEYS[1], id)
if not lock then return redis.error_reply('HOLDFAST_FOREIGN') end
local young = young_at(lock, marker_of(KEYS[1], KEYS[2]), ARGV[3], now)
if lock.cut_off then return redis.error_reply(CUT_OFF) end
return enter(lock, id, parse(terms), young)

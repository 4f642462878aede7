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
-- is exclusive with limit 1. Fixed widths, because patterns and formats are slow. Who finds a marker goes the long way.
local state = redis.call('HGET', KEYS[1], 's')
if not state and redis.call('EXISTS', KEYS[1]) == 0 then state = '0000000000000000 0000000000000' end
local plain = not ARGV[3] and redis.pcall('EXISTS', KEYS[2] or string.match(KEYS[1], '^.-:{%x%x}')) ~= 1
local calm = plain and state and #state == 30 and string.byte(state, 17) == 32 and state < '9007199250000000'
  and tonumber(string.sub(state, 1, 16)) and tonumber(string.sub(state, 18))
if calm and string.sub(ARGV[2], 2, 3) == 'x ' and string.sub(ARGV[2], 36, 38) == ' 1 ' then
  local time = redis.call('TIME')
  local micros = string.sub('00000' .. time[2], -6)
  local now = time[1] .. string.sub(micros, 1, 3)
  local fence = time[1] .. micros
  local last, death = string.sub(state, 1, 16), string.sub(state, 18)
  local terms, more = ARGV[2], string.sub(ARGV[2], 17, 22)
  if fence <= last then
    -- The counter is ahead of the clock: one fence at a time until the clock has caught up (see _lock).
    fence, more = string.format('%016.0f', last + 1), '000000'
    terms = string.sub(terms, 1, 16) .. more .. string.sub(terms, 23)
  end
  local till, idle = now + string.sub(ARGV[2], 4, 15), string.sub(ARGV[2], 24, 35)
  local moved = till + idle > tonumber(death)
  if moved then death = string.format('%013.0f', till + idle + math.floor(idle / 2)) end
  redis.call('HSET', KEYS[1], 's', string.format('%016.0f ', fence + more) .. death .. ' =' .. ARGV[1]
    .. ' ' .. till .. ' ' .. now .. ' ' .. fence .. ' ' .. terms)
  if moved then redis.call('PEXPIREAT', KEYS[1], death) end
  return fence .. '+' .. more
end

-- The usual case of a lock that is wanted by many: one holds it alone, and the claim joins the queue behind the others.
local ticket = plain and state and #state > 30 and string.sub(ARGV[2], 2, 3) == 'x '
  and string.match(ARGV[2], '^1 %d+ %d+ ([1-9]%d*) ', 37)
if ticket then
  local id, terms, record, known, alone = ARGV[1], ARGV[2], nil, nil, false
  local first, latest, queued, head, tail =
    string.match(state, '^%d+ %d+ 1 x 1 (%d+) (%S+) (%d+) (%d+) (%d+)$')
  if first then
    local fields = redis.call('HMGET', KEYS[1], 'h' .. latest, 'h' .. id, 'w' .. id)
    record, known = fields[1], fields[2] or fields[3]
  else
    latest, record = string.match(state, '^%d+ %d+ =(%S+) (.*)$')
    if latest and string.byte(record, 47) == 120 and string.sub(record, 81, 83) == ' 1 ' then
      first, queued, head, tail = string.sub(record, 1, 13), 0, 1, 0
      known, alone = latest == id, true
    end
  end
  local time = redis.call('TIME')
  local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
  -- What does not look as ours do is for the long way to judge.
  if first and record and not known and first > now and tonumber(first) and #tostring(tail) < 15
    and string.byte(state, 17) == 32 and state < '9007199250000000' then
    local place, begin = tail + 1, string.sub(state, 1, 30)
    local needed = now + string.sub(terms, 4, 15) + string.sub(terms, 24, 35)
    if needed > tonumber(string.sub(state, 18, 30)) then
      local death = string.format('%013.0f', needed + math.floor(string.sub(terms, 24, 35) / 2))
      redis.call('PEXPIREAT', KEYS[1], death)
      begin = string.sub(state, 1, 17) .. death
    end
    local fields = {
      'w' .. id, string.format('%013.0f %s %016d %s', now + ticket, now, place, terms), 'q' .. place, id,
      's', string.format('%s 1 x 1 %s %s %d %s %d', begin, first, latest, queued + 1, head, place),
    }
    -- Of a holder that nobody waited for, the record was in the state.
    if alone then fields[7], fields[8] = 'h' .. latest, record end
    -- Refused by a full server (noeviction): then the long way, which may know better.
    if type(redis.pcall('HSET', KEYS[1], unpack(fields))) == 'number' then
      local learns = string.sub(state, 1, 16) .. (queued + 0 == 0 and ' ' .. first - now or ' 0')
      return { queued + 1, first - now, now, record, '=' .. learns }
    end
  end
end

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _queue
--- @include _enter

local lock = open(KEYS[1], ARGV[1])
if not lock then return redis.error_reply('HOLDFAST_FOREIGN') end
local young = young_at(lock, marker_of(KEYS[1], KEYS[2]), ARGV[3], now)
if lock.cut_off then return redis.error_reply(CUT_OFF) end
return enter(lock, ARGV[1], parse(ARGV[2]), young)

-- The state of one lock, and the steps that change it. Exclusive, shared and limited locks are this one machine.
--
-- A lock is one hash:
--   s         "<last fence, 16 digits> <when the hash may vanish, 13 digits>", and then
--             nothing: nobody holds or waits;
--             " =<id> <record>": one exclusive holder with limit 1, nobody waits;
--             " <holders> <mode> <limit> <earliest end> <latest id> <queued> <head> <tail>": anything else, where the
--             limit is that of the exclusive claims here, 0 when there are none
--   h<id>     "<end> <since> <fence> <terms>": a holder's record; h~<id>: one that left before its minHold had passed
--   w<id>     "<end of ticket> <since> <place, 16 digits> <terms>": a waiter
--   q<place>  the id that waits at that place; or " <place>" in a gap that others left: its first place tells its last, and
--             the other way round, so that a gap of any length costs one look
--   o<fence>  "<at> <id> <json>": a lease that was ended by force; f<id>: its fence
--   b         "<id> <last fence, 16 digits>": whose ballot was voted for last, and the last fence before it
-- Terms are what the client wrote (record.ts): "<flag><mode> <ttl + lockDelay, 12 digits> <fences after the first, 6 digits>
-- <idle, 12 digits> <limit> <ttl> <lockDelay> <ticket> <minHold> <inbox> <json>". Flags: "." nothing special, "!" has a
-- minHold, "v" voted, "w" voted with a minHold. Times are milliseconds of this server's clock, ends and beginnings with 13
-- digits, fences with 16.
--
-- Others may have written into the hash, so that nothing in it is believed by its looks. A waiter that is none is passed over.
-- A holder that is none makes the lock foreign: nobody could say how long it is held.

-- Scripts count in doubles: above 2^53 fences would repeat. No clock gets there before the year 2255.
local FENCE_MAX = 9007199250000000
-- How many fences a lease may get at once while the counter is ahead of the clock (see grant).
local AHEAD_MAX = 500

local TERMS = '^([.!vw])([xs]) (%d%d%d%d%d%d%d%d%d%d%d%d) (%d%d%d%d%d%d) (%d%d%d%d%d%d%d%d%d%d%d%d) '
  .. '(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) '

local time = redis.call('TIME')
local now_text = time[1] .. string.sub('00000' .. time[2], -6, -4)
local now = now_text + 0
local now_us = time[1] * 1000000 + time[2]

local function parse(terms)
  local flag, mode, keep, more, idle, limit, ttl, delay, ticket, min_hold, inbox = string.match(terms or '', TERMS)
  if not flag then return nil end
  -- Digits only, so that adding 0 makes a number of them: at a third of what tonumber() costs.
  local parsed = {
    voted = flag == 'v' or flag == 'w', mode = mode, keep = keep + 0, more = more + 0, idle = idle + 0, limit = limit + 0,
    ttl = ttl + 0, delay = delay + 0, ticket = ticket + 0, min_hold = min_hold + 0, inbox = inbox, text = terms,
  }
  if math.max(parsed.ttl, parsed.delay, parsed.ticket, parsed.min_hold) >= 1e12 or parsed.limit >= 1e9 then return nil end
  return parsed
end

local function ends(record)
  return tonumber(string.sub(record, 1, 13))
end

local function since(record)
  return tonumber(string.sub(record, 15, 27))
end

local function fence_of(record)
  return string.match(record, '^%d+ %d+ 0*(%d+) ')
end

-- A grant as the client hears of it: "<fence>+<how many more are in its run>".
local function told(record)
  return fence_of(record) .. '+' .. string.sub(record, 62, 67)
end

local function place_of(record)
  return tonumber(string.match(record, '^%d+ %d+ (%d+) '))
end

-- The end of a record and its terms; nil when it is no record.
local function read(record)
  local till, began, number = string.match(record or '', '^(%d+) (%d+) (%d+) ')
  if not till or #till ~= 13 or #began ~= 13 or #number ~= 16 then return nil end
  return till + 0, parse(string.sub(record, 46))
end

-- What a message says of a claim, in a way that only who knows the claim's whole id can say it. It shows eight characters of
-- the id, so that the process finds the claim; a listener learns nothing that it could use.
local function sealed(id, text)
  return string.sub(id, 1, 8) .. text .. '.' .. string.sub(redis.sha1hex(id .. text), 1, 20)
end

-- Notes what the lock knows of the claim: its record, and the record's terms. False: it holds something that is not a lease.
local function know(lock, id, held, waits)
  lock.held, lock.waits = held, waits
  if held then
    lock.held_terms = select(2, read(held))
    if not lock.held_terms then return false end
  end
  if waits then
    lock.waits_terms = select(2, read(waits))
    local place = lock.waits_terms and place_of(waits)
    if not place or place < lock.head or redis.call('HGET', lock.key, 'q' .. place) ~= id then
      redis.call('HDEL', lock.key, 'w' .. id)
      lock.waits = false
    end
  end
  return true
end

-- Reads the lock, and what it knows of the claim. Nil: the key holds something that is not a lock.
local function open(key, id)
  local fields = redis.call('HMGET', key, 's', 'h' .. id, 'w' .. id)
  local state = fields[1]
  if not state and redis.call('EXISTS', key) == 1 then return nil end
  state = state or '0000000000000000 0000000000000'
  local fence, death = string.match(state, '^(%d+) (%d+)')
  if not fence or #fence ~= 16 or #death ~= 13 then return nil end
  local lock = {
    key = key, held = false, waits = false, fence = fence + 0, death = death + 0, death_text = death, n = 0, mode = 'x',
    limit = 0, first = 0, latest = '-', queued = 0, head = 1, tail = 0, by = '',
  }
  if lock.fence > FENCE_MAX then return nil end
  if #state == 30 then return know(lock, id, fields[2], fields[3]) and lock or nil end
  local alone, record = string.match(state, '^=(%S+) (.*)$', 32)
  if alone then
    local terms = select(2, read(record))
    if not terms then return nil end
    -- Touching the hash first lets a full server (noeviction) accept what follows.
    redis.call('HDEL', key, '-')
    redis.call('HSET', key, 'h' .. alone, record, 's',
      string.sub(state, 1, 30) .. ' 1 x 1 ' .. string.sub(record, 1, 13) .. ' ' .. alone .. ' 0 1 0')
    lock.n, lock.limit, lock.first, lock.latest = 1, 1, ends(record), alone
    if alone == id then lock.held, lock.held_terms = record, terms end
    return lock
  end
  local n, mode, limit, first, latest, queued, head, tail =
    string.match(state, '^(%d+) (%a) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+)$', 32)
  if not n then return nil end
  lock.n, lock.mode, lock.limit, lock.first, lock.latest = n + 0, mode, limit + 0, first + 0, latest
  lock.queued, lock.head, lock.tail = queued + 0, head + 0, tail + 0
  if lock.tail > 1e14 or lock.queued > lock.tail or lock.n > 1e9 then return nil end
  return know(lock, id, fields[2], fields[3]) and lock or nil
end

-- Writes the lock back, and keeps its hash alive for `idle` ms after `till`, the last moment that matters in it.
local function close(lock, till, idle)
  -- A minHold that was left behind matters for longer than the claim that comes next, perhaps.
  if lock.stays then till, idle = math.max(till or 0, lock.stays), math.max(idle or 0, lock.idle) end
  -- Half an idle time in reserve, so that most calls need not touch the key's own expiry.
  local moved = till and till + idle > lock.death
  if moved then
    lock.death = till + idle + math.floor(idle / 2)
    lock.death_text = string.format('%013.0f', lock.death)
  end
  local state = string.format('%016.0f ', lock.fence) .. lock.death_text
  if lock.n > 0 or lock.queued > 0 then
    state = state .. string.format(
      ' %d %s %d %.0f %s %d %d %d',
      lock.n, lock.mode, lock.limit, lock.first, lock.latest, lock.queued, lock.head, lock.tail
    )
  end
  redis.call('HSET', lock.key, 's', state)
  if moved then redis.call('PEXPIREAT', lock.key, lock.death_text) end
end

-- The names of the lock's fields of one kind. Without their values: of a long queue these are most of it.
local function fields_of(lock, kind)
  local found = {}
  for _, field in ipairs(redis.call('HKEYS', lock.key)) do
    if string.sub(field, 1, 1) == kind then found[#found + 1] = field end
  end
  return found
end

-- Their values, in the same order.
local function values_of(lock, fields)
  local values = {}
  for from = 1, #fields, 500 do
    local portion = redis.call('HMGET', lock.key, unpack(fields, from, math.min(from + 499, #fields)))
    for _, value in ipairs(portion) do values[#values + 1] = value end
  end
  return values
end

-- Lets go of holders whose time is over. `first` is never later than the earliest end, so most calls look at nothing.
local function prune(lock)
  if lock.n == 0 or lock.first > now then return end
  local alone = lock.n == 1 and redis.call('HGET', lock.key, 'h' .. lock.latest)
  local fields = alone and { 'h' .. lock.latest } or fields_of(lock, 'h')
  local records = alone and { alone } or values_of(lock, fields)
  lock.n, lock.first, lock.latest = 0, 0, '-'
  for i, field in ipairs(fields) do
    local till, terms = read(records[i])
    if not terms then error('HOLDFAST_FOREIGN') end
    if till <= now then
      redis.call('HDEL', lock.key, field)
    else
      lock.n = lock.n + 1
      lock.latest = string.sub(field, 2)
      if lock.n == 1 or till < lock.first then lock.first = till end
    end
  end
end

local function admits(lock, terms)
  return lock.n == 0 or (lock.mode == terms.mode and (terms.mode == 's' or lock.n < terms.limit))
end

-- Adds a holder with the given fence; the caller has checked that it is admitted.
local function hold(lock, id, terms, till, fence)
  lock.held = string.format('%013.0f %s %016.0f ', till, now_text, fence) .. terms.text
  redis.call('HSET', lock.key, 'h' .. id, lock.held)
  if lock.n == 0 or till < lock.first then lock.first = till end
  lock.n, lock.mode, lock.latest = lock.n + 1, terms.mode, id
  if terms.mode == 'x' then lock.limit = terms.limit end
end

-- Fences keep rising when the counter is lost, because the clock is their floor. A lease gets a run of them. While the counter
-- is ahead of the clock it must not get farther ahead, or a lost counter would show: so there is at most one run in each
-- millisecond, known by when the lease began that ends now, and else one fence.
local function grant(lock, id, terms, till)
  local fence = math.max(lock.fence + 1, now_us)
  if fence > now_us then
    terms.more = lock.since and lock.since < now and math.min(terms.more, AHEAD_MAX - 1) or 0
    terms.text = string.sub(terms.text, 1, 16) .. string.format('%06d', terms.more) .. string.sub(terms.text, 23)
    lock.since = nil
  end
  lock.fence = fence + terms.more
  hold(lock, id, terms, till, fence)
  return told(lock.held)
end

-- Moves the end of a holder's lease; renewals only move it forward.
local function extend(lock, id, till)
  till = math.max(till, ends(lock.held))
  lock.held = string.format('%013.0f', till) .. string.sub(lock.held, 14)
  redis.call('HSET', lock.key, 'h' .. id, lock.held)
  if lock.n == 1 then lock.first = till end
end

-- Calls `step` for one claim of several; what goes wrong there becomes that claim's answer, "!" and the message.
local function separately(step, ...)
  local ok, answer = pcall(step, ...)
  if ok then return answer end
  return '!' .. tostring(type(answer) == 'table' and answer.err or answer)
end

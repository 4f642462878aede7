-- The state of one lock, and the steps that change it. Exclusive, shared and limited locks are this one machine.
--
-- What is in the lock's hash is declared in wire.ts. Columns are used by their names: the build inserts the numbers.
--
-- Other programs may have written into the hash, so all of it is checked. A waiter with a wrong record is skipped. A holder with a
-- wrong record makes the lock foreign: its end is unknown.

-- How many fences a lease may get at once while the counter is ahead of the clock (see grant).
local AHEAD_MAX = 500

local time = redis.call('TIME')
local now_text = time[1] .. string.sub('00000' .. time[2], -6, -4)
local now = now_text + 0
local now_us = time[1] * 1000000 + time[2]

local function parse(terms)
  local flag, mode, keep, more, idle, limit, ttl, delay, ticket, minhold, inbox = string.match(terms or '', TERMS.exact{})
  if not flag then return nil end
  -- Digits only, so adding 0 makes numbers of them: at a third of the cost of tonumber().
  local parsed = {
    voted = flag == FLAG.voted or flag == FLAG.votedMinHold, mode = mode, keep = keep + 0, more = more + 0, idle = idle + 0, limit = limit + 0,
    ttl = ttl + 0, delay = delay + 0, ticket = ticket + 0, minhold = minhold + 0, inbox = inbox, text = terms,
  }
  if math.max(parsed.ttl, parsed.delay, parsed.ticket, parsed.minhold) >= 1e12 or parsed.limit >= 1e9 then return nil end
  return parsed
end

local function ends(record)
  return tonumber(string.sub(record, RECORD.till))
end

local function since(record)
  return tonumber(string.sub(record, RECORD.since))
end

local function fence_of(record)
  return string.match(record, RECORD.pattern{ number = '0*(%d+)' })
end

-- A grant as the client receives it.
local function run_of(record)
  return RUN.text{ fence = fence_of(record), more = string.sub(record, RECORD.more) }
end

local function place_of(record)
  return tonumber(string.match(record, RECORD.pattern{ number = '(%d+)' }))
end

-- The end of a record and its terms; nil if it is not a record.
local function read(record)
  local till, began, number = string.match(record or '', RECORD.pattern{ since = began })
  if not till or #till ~= RECORD.till.width or #began ~= RECORD.since.width or #number ~= RECORD.number.width then return nil end
  return till + 0, parse(string.sub(record, RECORD.terms.from))
end

-- Stores what the lock knows of the claim: its record, and the record's terms. False: its record is not that of a lease.
local function know(lock, id, held, waits)
  lock.held, lock.waits = held, waits
  if held then
    lock.held_terms = select(2, read(held))
    if not lock.held_terms then return false end
  end
  if waits then
    lock.waits_terms = select(2, read(waits))
    local place = lock.waits_terms and place_of(waits)
    if not place or place < lock.head or redis.call('HGET', lock.key, FIELD.place .. place) ~= id then
      redis.call('HDEL', lock.key, FIELD.waiter .. id)
      lock.waits = false
    end
  end
  return true
end

-- Reads the lock, and what it knows of the claim. Nil: the key is not a lock.
local function open(key, id)
  local fields = redis.call('HMGET', key, FIELD.state, FIELD.holder .. id, FIELD.waiter .. id)
  local state = fields[1]
  if not state and redis.call('EXISTS', key) == 1 then return nil end
  state = state or STATE.zero
  local fence, death = string.match(state, STATE.start{ last = fence })
  if not fence or #fence ~= STATE.last.width or #death ~= STATE.death.width then return nil end
  local lock = {
    key = key, held = false, waits = false, fence = fence + 0, death = death + 0, death_text = death, n = 0, mode = MODE.exclusive,
    limit = 0, first = 0, latest = WORD.nobody, queued = 0, head = 1, tail = 0, by = '',
  }
  if lock.fence > LIMIT.fence then return nil end
  if #state == STATE.width then return know(lock, id, fields[2], fields[3]) and lock or nil end
  local alone, record = string.match(state, ALONE.pattern{ id = alone }, STATE.width + 2)
  if alone then
    local terms = select(2, read(record))
    if not terms then return nil end
    -- After a deletion in the same script, a full server (noeviction) accepts what follows.
    redis.call('HDEL', key, FIELD.none)
    redis.call('HSET', key, FIELD.holder .. alone, record, FIELD.state, STATE_CROWD.text{
      state = string.sub(state, STATE.whole), holders = '1', mode = MODE.exclusive, limit = '1',
      first = string.sub(record, RECORD.till), latest = alone, queued = '0', head = '1', tail = '0',
    })
    lock.n, lock.limit, lock.first, lock.latest = 1, 1, ends(record), alone
    if alone == id then lock.held, lock.held_terms = record, terms end
    return lock
  end
  local n, mode, limit, first, latest, queued, head, tail =
    string.match(state, CROWD.pattern{ holders = n, mode = '%a' }, STATE.width + 2)
  if not n then return nil end
  lock.n, lock.mode, lock.limit, lock.first, lock.latest = n + 0, mode, limit + 0, first + 0, latest
  lock.queued, lock.head, lock.tail = queued + 0, head + 0, tail + 0
  if lock.tail > 1e14 or lock.queued > lock.tail or lock.n > 1e9 then return nil end
  return know(lock, id, fields[2], fields[3]) and lock or nil
end

-- Writes the lock back, and keeps its hash alive for `idle` ms after `till`, the last moment that matters in it.
local function close(lock, till, idle)
  -- A minHold that was left behind may last longer than the next claim.
  if lock.stays then till, idle = math.max(till or 0, lock.stays), math.max(idle or 0, lock.idle) end
  -- Half an idle time in reserve, so most calls need not change the key's own expiry.
  local moved = till and till + idle > lock.death
  -- Refused before anything was ever kept here, as in a quarantine: a hash with nothing in it would have no end, either.
  if lock.death == 0 and lock.fence == 0 and lock.n + lock.queued == 0 and not moved then return end
  if moved then
    lock.death = till + idle + math.floor(idle / 2)
    lock.death_text = string.format(STATE.death.format, lock.death)
  end
  local state = STATE.text{ last = digits(lock.fence), death = lock.death_text }
  if lock.n > 0 or lock.queued > 0 then
    state = STATE_CROWD.text{
      state = state, holders = small(lock.n), mode = lock.mode, limit = small(lock.limit), first = digits(lock.first),
      latest = lock.latest, queued = small(lock.queued), head = small(lock.head), tail = small(lock.tail),
    }
  end
  redis.call('HSET', lock.key, FIELD.state, state)
  -- See _wanted.
  if lock.limit > 1 and lock.n == 0 and lock.queued == 0 then redis.call('HDEL', lock.key, FIELD.eldest) end
  if moved then redis.call('PEXPIREAT', lock.key, lock.death_text) end
end

-- The names of the lock's fields of one kind. Without the values, which are most of a long queue.
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

-- Removes holders whose time is over. `first` is never later than the earliest end, so most calls read nothing.
local function prune(lock)
  if lock.n == 0 or lock.first > now then return end
  local alone = lock.n == 1 and redis.call('HGET', lock.key, FIELD.holder .. lock.latest)
  local fields = alone and { FIELD.holder .. lock.latest } or fields_of(lock, FIELD.holder)
  local records = alone and { alone } or values_of(lock, fields)
  lock.n, lock.first, lock.latest = 0, 0, WORD.nobody
  for i, field in ipairs(fields) do
    local till, terms = read(records[i])
    if not terms then error(WORD.foreign) end
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
  return lock.n == 0 or (lock.mode == terms.mode and (terms.mode == MODE.shared or lock.n < terms.limit))
end

-- Adds a holder with the given fence; the caller has checked that it is admitted.
local function hold(lock, id, terms, till, fence)
  lock.held = RECORD.text{ till = digits(till), since = now_text, number = digits(fence), terms = terms.text }
  redis.call('HSET', lock.key, FIELD.holder .. id, lock.held)
  if lock.n == 0 or till < lock.first then lock.first = till end
  lock.n, lock.mode, lock.latest = lock.n + 1, terms.mode, id
  if terms.mode == MODE.exclusive then lock.limit = terms.limit end
end

-- Fences keep rising even if the counter is lost, because the clock is their floor. A lease gets a run of them. While the counter is
-- ahead of the clock it must not get farther ahead, because fences could repeat if it was lost: so there is at most one run in each
-- millisecond (judged by when the lease that ends now began), and otherwise one fence.
local function grant(lock, id, terms, till)
  local fence = math.max(lock.fence + 1, now_us)
  if fence > now_us then
    terms.more = lock.since and lock.since < now and math.min(terms.more, AHEAD_MAX - 1) or 0
    terms.text = TERMS.replace(terms.text, more, small(terms.more))
    lock.since = nil
  end
  lock.fence = fence + terms.more
  hold(lock, id, terms, till, fence)
  return run_of(lock.held)
end

-- Moves the end of a holder's lease; renewals only move it forward.
local function extend(lock, id, till)
  till = math.max(till, ends(lock.held))
  lock.held = RECORD.replace(lock.held, till, digits(till))
  redis.call('HSET', lock.key, FIELD.holder .. id, lock.held)
  if lock.n == 1 then lock.first = till end
end

-- Calls `step` for one claim of several; an error becomes that claim's answer, "!" and the message.
local function separately(step, ...)
  local ok, answer = pcall(step, ...)
  if ok then return answer end
  return WORD.failed .. tostring(type(answer) == 'table' and answer.err or answer)
end

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
--   q<place>  the id that waits at that place
--   o<fence>  "<at> <id> <json>": a lease that was ended by force
--   b         "<id> <last fence, 16 digits>": whose ballot was voted for last, and the last fence before it
-- Terms are what the client wrote (record.ts): "<flag><mode> <ttl + lockDelay, 12 digits> <fences after the first, 6 digits>
-- <idle, 12 digits> <limit> <ttl> <lockDelay> <ticket> <minHold> <inbox> <json>". Flags: "." nothing special, "!" has a
-- minHold, "v" voted, "w" voted with a minHold. Times are milliseconds of this server's clock, ends and beginnings with 13
-- digits, fences with 16.

local TERMS = '^(.)(%a) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) '

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_us = time[1] * 1000000 + time[2]

local function parse(terms)
  local flag, mode, keep, more, idle, limit, ttl, delay, ticket, min_hold, inbox = string.match(terms, TERMS)
  return {
    voted = flag == 'v' or flag == 'w', mode = mode, keep = tonumber(keep), more = tonumber(more), idle = tonumber(idle),
    limit = tonumber(limit), ttl = tonumber(ttl), delay = tonumber(delay), ticket = tonumber(ticket),
    min_hold = tonumber(min_hold), inbox = inbox, text = terms,
  }
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

local function terms_of(record)
  return string.match(record, '^%d+ %d+ %d+ (.*)$')
end

-- Reads the lock, and what it knows of the claim. Nil: the key holds something that is not a lock.
local function open(key, id)
  local fields = redis.call('HMGET', key, 's', 'h' .. id, 'w' .. id)
  local state = fields[1]
  if not state and redis.call('EXISTS', key) == 1 then return nil end
  state = state or '0000000000000000 0000000000000'
  local lock = {
    key = key, held = fields[2], waits = fields[3], fence = tonumber(string.sub(state, 1, 16)),
    death = tonumber(string.sub(state, 18, 30)), n = 0, mode = 'x', limit = 0, first = 0, latest = '-', queued = 0,
    head = 1, tail = 0,
  }
  if not lock.fence or not lock.death then return nil end
  if #state == 30 then return lock end
  local alone, record = string.match(state, '^=(%S+) (.*)$', 32)
  if alone then
    -- Touching the hash first lets a full server (noeviction) accept what follows.
    redis.call('HDEL', key, '-')
    redis.call('HSET', key, 'h' .. alone, record, 's',
      string.sub(state, 1, 30) .. ' 1 x 1 ' .. string.sub(record, 1, 13) .. ' ' .. alone .. ' 0 1 0')
    lock.n, lock.limit, lock.first, lock.latest = 1, 1, ends(record), alone
    if alone == id then lock.held = record end
    return lock
  end
  local n, mode, limit, first, latest, queued, head, tail =
    string.match(state, '^(%d+) (%a) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+)$', 32)
  if not n then return nil end
  lock.n, lock.mode, lock.limit, lock.first, lock.latest = tonumber(n), mode, tonumber(limit), tonumber(first), latest
  lock.queued, lock.head, lock.tail = tonumber(queued), tonumber(head), tonumber(tail)
  return lock
end

-- Writes the lock back, and keeps its hash alive for `idle` ms after `till`, the last moment that matters in it.
local function close(lock, till, idle)
  -- Half an idle time in reserve, so that most calls need not touch the key's own expiry.
  local moved = till and till + idle > lock.death
  if moved then lock.death = till + idle + math.floor(idle / 2) end
  local state = string.format('%016.0f %013.0f', lock.fence, lock.death)
  if lock.n > 0 or lock.queued > 0 then
    state = state .. string.format(
      ' %d %s %d %.0f %s %d %d %d',
      lock.n, lock.mode, lock.limit, lock.first, lock.latest, lock.queued, lock.head, lock.tail
    )
  end
  redis.call('HSET', lock.key, 's', state)
  if moved then redis.call('PEXPIREAT', lock.key, string.format('%.0f', lock.death)) end
end

-- Lets go of holders whose time is over. `first` is never later than the earliest end, so most calls look at nothing.
local function prune(lock)
  if lock.n == 0 or lock.first > now then return end
  local fields
  if lock.n == 1 then
    local record = redis.call('HGET', lock.key, 'h' .. lock.latest)
    if record then fields = { 'h' .. lock.latest, record } end
  end
  fields = fields or redis.call('HGETALL', lock.key)
  lock.n, lock.first, lock.latest = 0, 0, '-'
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 1) == 'h' then
      local till = ends(fields[i + 1])
      if till <= now then
        redis.call('HDEL', lock.key, fields[i])
      else
        lock.n = lock.n + 1
        lock.latest = string.sub(fields[i], 2)
        if lock.n == 1 or till < lock.first then lock.first = till end
      end
    end
  end
end

local function admits(lock, terms)
  return lock.n == 0 or (lock.mode == terms.mode and (terms.mode == 's' or lock.n < terms.limit))
end

-- Adds a holder with the given fence; the caller has checked that it is admitted.
local function hold(lock, id, terms, till, fence)
  lock.held = string.format('%013.0f %013.0f %016.0f %s', till, now, fence, terms.text)
  redis.call('HSET', lock.key, 'h' .. id, lock.held)
  if lock.n == 0 or till < lock.first then lock.first = till end
  lock.n, lock.mode, lock.latest = lock.n + 1, terms.mode, id
  if terms.mode == 'x' then lock.limit = terms.limit end
end

-- Fences keep rising when the counter is lost, because the clock is their floor. A lease gets a run of them, but only one
-- while the counter is ahead of the clock: else it could get so far ahead that a lost counter would show.
local function grant(lock, id, terms, till)
  local fence = math.max(lock.fence + 1, now_us)
  if fence > now_us then
    terms.more, terms.text = 0, string.sub(terms.text, 1, 16) .. '000000' .. string.sub(terms.text, 23)
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

local function leave_queue(lock, id, place)
  redis.call('HDEL', lock.key, 'w' .. id, 'q' .. place)
  lock.queued = lock.queued - 1
  if lock.queued == 0 then lock.head, lock.tail = 1, 0 end
end

-- Grants to the waiters at the head, as many as may enter, and tells their processes. Lapsed tickets are passed over.
-- Returns what is told of the grant when `caller` is among them: it learns by the reply, and its lease counts from now.
local function promote(lock, caller)
  local mine
  local mail = {}
  for place = lock.head, lock.tail do
    local id = redis.call('HGET', lock.key, 'q' .. place)
    if id then
      local record = redis.call('HGET', lock.key, 'w' .. id)
      local terms = parse(terms_of(record))
      local till = ends(record)
      if till <= now and id ~= caller then
        leave_queue(lock, id, place)
      elseif not admits(lock, terms) then
        lock.head = place
        break
      else
        leave_queue(lock, id, place)
        if id == caller then
          lock.waits = false
          mine = grant(lock, id, terms, now + terms.keep)
        else
          -- A process that listens gets its whole ttl, counted from its last sign of life. One that does not may be dead:
          -- it must not cost the others more than its ticket, and is asked ("?") to confirm.
          local heard = redis.call('PUBSUB', 'NUMSUB', terms.inbox)[2] > 0
          local lasts = heard and till - terms.ticket + terms.ttl or till
          local news = id .. (heard and ':' or '?') .. grant(lock, id, terms, lasts + terms.delay)
          mail[terms.inbox] = mail[terms.inbox] and mail[terms.inbox] .. ',' .. news or news
        end
      end
    end
    if lock.queued == 0 then break end
    lock.head = place + 1
  end
  for inbox, news in pairs(mail) do
    redis.call('PUBLISH', inbox, 'granted ' .. news .. ' ' .. lock.key)
  end
  return mine
end

-- Calls `step` for one claim of several; what goes wrong there becomes that claim's answer, "!" and the message.
local function separately(step, ...)
  local ok, answer = pcall(step, ...)
  if ok then return answer end
  return '!' .. tostring(type(answer) == 'table' and answer.err or answer)
end

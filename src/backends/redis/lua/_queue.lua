-- The queue of waiters: how a claim leaves it, and how the lock is granted to those at its head.

-- How many lapsed tickets one call skips: no call keeps the server busy for long.
local PASSED_MAX = 500

local function queue_is_empty(lock)
  if lock.queued > 0 and lock.head <= lock.tail then return false end
  lock.queued, lock.head, lock.tail = 0, 1, 0
  return true
end

-- The other end of a gap, if that is what the place's field says.
local function gap_end(text)
  return text and tonumber(string.match(text, '^ (%d+)$'))
end

-- Leaves from any place. The gap is joined with those beside it.
local function leave_queue(lock, id, place)
  local key, from, till = lock.key, place, place
  redis.call('HDEL', key, FIELD.waiter .. id, FIELD.place .. place)
  lock.queued = lock.queued - 1
  local beside = redis.call('HMGET', key, FIELD.place .. place - 1, FIELD.place .. place + 1)
  local before, after = gap_end(beside[1]), gap_end(beside[2])
  if before and before < place then
    from = before
    redis.call('HDEL', key, FIELD.place .. place - 1, FIELD.place .. from)
  end
  if after and after > place then
    till = after
    redis.call('HDEL', key, FIELD.place .. place + 1, FIELD.place .. till)
  end
  if from <= lock.head then
    lock.head = till + 1
  elseif till >= lock.tail then
    lock.tail = from - 1
  else
    redis.call('HSET', key, FIELD.place .. from, ' ' .. till, FIELD.place .. till, ' ' .. from)
  end
  queue_is_empty(lock)
end

-- The first place behind `place` that is not empty. The hash is read once in a call, and kept in `line`.
local function next_place(lock, place, line)
  if not line[1] then
    for _, field in ipairs(fields_of(lock, FIELD.place)) do
      local other = tonumber(string.sub(field, 2))
      if other and other > place and other <= lock.tail then line[#line + 1] = other end
    end
    table.sort(line)
    line[#line + 1] = lock.tail + 1
    line.at = 1
  end
  while line[line.at] and line[line.at] <= place do line.at = line.at + 1 end
  return line[line.at] or lock.tail + 1
end

-- Moves the head, where no claim waits, to the next place where one may wait.
local function skip(lock, text, line)
  local place = lock.head
  local last = gap_end(text)
  if last and last >= place and last < lock.tail then
    redis.call('HDEL', lock.key, FIELD.place .. place, FIELD.place .. last)
    lock.head = last + 1
  elseif text then
    -- No waiter has this id.
    redis.call('HDEL', lock.key, FIELD.place .. place, FIELD.waiter .. text)
    lock.queued, lock.head = lock.queued - 1, place + 1
  else
    -- Nothing is there, so another program changed the queue: continue where it does.
    lock.head = next_place(lock, place, line)
  end
end

-- A process that listens gets its whole ttl, counted from its last heartbeat. One that does not may be dead: it must not delay the
-- others longer than its ticket, and is asked ("?") to confirm.
local function hand_over(lock, id, terms, till, mail)
  local heard = redis.call('PUBSUB', 'NUMSUB', terms.inbox)[2] > 0
  local lasts = heard and till - terms.ticket + terms.ttl or till
  local news = sealed(id, (heard and MARK.sure or MARK.asked) .. grant(lock, id, terms, lasts + terms.delay) .. lock.by)
  add(mail, terms.inbox, news)
end

-- Grants the lock to the waiters at the head, as many as may enter, and notifies their processes. Lapsed tickets are skipped; if
-- there are too many for one call, the lock is `busy`, and the next call continues.
-- Returns a RUN if `caller` is among them: it gets its grant by the reply, and its lease counts from now.
local function promote(lock, caller)
  local mine
  local mail, finished, passed, line = {}, {}, 0, {}
  -- The first claim that enters an empty lock is the oldest of its holders.
  local oldest = lock.n == 0 and {}
  while not queue_is_empty(lock) do
    local place = lock.head
    local id = redis.call('HGET', lock.key, FIELD.place .. place)
    local record = id and redis.call('HGET', lock.key, FIELD.waiter .. id)
    local till, terms = read(record)
    if not terms then
      skip(lock, id, line)
      passed = passed + 1
    elseif till <= now and id ~= caller or wants(record) and outcome_of(lock) then
      redis.call('HDEL', lock.key, FIELD.waiter .. id, FIELD.place .. place)
      lock.queued, lock.head, passed = lock.queued - 1, place + 1, passed + 1
      if till > now then add(finished, terms.inbox, sealed(id, MARK.done)) end
    elseif not admits(lock, terms) then
      break
    else
      redis.call('HDEL', lock.key, FIELD.waiter .. id, FIELD.place .. place)
      lock.queued, lock.head = lock.queued - 1, place + 1
      if id == caller then
        lock.waits = false
        mine = grant(lock, id, terms, now + terms.keep)
      else
        hand_over(lock, id, terms, till, mail)
        if oldest and not oldest.id then oldest.id, oldest.inbox = id, terms.inbox end
      end
      if oldest and not oldest.id then oldest = false end
    end
    if passed >= PASSED_MAX then
      lock.busy = not queue_is_empty(lock)
      break
    end
  end
  local tail = ''
  if lock.queued > 0 then
    if lock.mode == MODE.shared or lock.limit == 1 then
      tail = ',' .. MARK.wanted
    elseif oldest and oldest.id then
      table.insert(mail[oldest.inbox], 2, MARK.wanted .. string.sub(oldest.id, 1, LIMIT.shown))
    end
  end
  post(WORD.granted, mail, LIMIT.grants, tail)
  post(WORD.finished, finished, LIMIT.news)
  return mine
end

-- What a waiter learns, as LEARNED. A grant has a greater fence than all that the claim learned before, so a late message is noticed.
local function still_queued(lock, young)
  local again = 0
  if lock.busy then
    again = 1
  elseif place_of(lock.waits) <= lock.head then
    again = young > 0 and young or math.max(1, lock.first - now)
  end
  return LEARNED.text{ last = digits(lock.fence), again = digits(again), by = lock.by }
end

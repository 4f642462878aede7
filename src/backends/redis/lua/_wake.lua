-- Lets the waiters that want an outcome leave the queue, because the lock has one, and tells their processes: those at the next places from
-- `place` on, as many as one call looks at. Returns the place from which to continue, or 0. The caller promotes and closes.
local function wake(lock, place)
  local fields, last = {}, math.min(lock.tail, place + LIMIT.portion - 1)
  for i = place, last do fields[#fields + 1] = FIELD.place .. i end
  if #fields == 0 then return 0 end
  local ids = redis.call('HMGET', lock.key, unpack(fields))
  local mail, next_place = {}, last + 1
  for i, id in ipairs(ids) do
    local gap = id and gap_end(id)
    if gap and gap >= next_place then next_place = gap + 1 end
    local record = id and not gap and redis.call('HGET', lock.key, FIELD.waiter .. id)
    local _, terms = read(record)
    if terms and wants(record) and place_of(record) == place + i - 1 then
      leave_queue(lock, id, place + i - 1)
      add(mail, terms.inbox, sealed(id, MARK.done))
    end
  end
  post(WORD.finished, mail, LIMIT.news)
  return lock.queued > 0 and next_place <= lock.tail and next_place or 0
end

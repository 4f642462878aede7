-- The hint to holders that a claim queues for their lock.

-- The oldest holder. Of several it is found once and kept, because that reads the whole lock: all who come later have greater fences,
-- so it stays the oldest for as long as it holds.
local function eldest(lock)
  if lock.n == 1 and lock.latest ~= WORD.nobody then
    local alone = string.byte(lock.latest) ~= 126 and redis.call('HGET', lock.key, FIELD.holder .. lock.latest)
    if alone then return lock.latest, alone end
  end
  local known = redis.call('HGET', lock.key, FIELD.eldest) or ''
  local number, id = string.match(known, ELDEST.exact{})
  local record = id and redis.call('HGET', lock.key, FIELD.holder .. id)
  if record and string.sub(record, RECORD.number) == number and string.sub(record, RECORD.till) > now_text then return id, record end
  local fields = fields_of(lock, FIELD.holder)
  local records = values_of(lock, fields)
  number = nil
  for i, field in ipairs(fields) do
    local other = string.sub(field, 2)
    local till, terms = read(records[i])
    local began = terms and till > now and string.byte(other) ~= 126 and string.sub(records[i], RECORD.number)
    if began and (not number or began < number) then number, id, record = began, other, records[i] end
  end
  if not number then return nil end
  redis.call('HSET', lock.key, FIELD.eldest, ELDEST.text{ number = number, id = id })
  return id, record
end

-- Whether a claim queues for the lock that this claim holds: for all who share it, and, with a limit, for the oldest.
local function is_wanted(lock, id)
  if lock.queued == 0 then return false end
  if lock.mode == MODE.shared or lock.n == 1 and lock.latest == id then return true end
  return eldest(lock) == id
end

-- A grant as the client receives it, if the claim asked for it.
local function granted(lock, id, run)
  return is_wanted(lock, id) and run .. MARK.wanted or run
end

-- The queue begins: tells those who hold the lock.
local function tell_holders(lock)
  local mail = {}
  local function tell(id, record)
    local _, terms = read(record)
    if terms then add(mail, terms.inbox, sealed(id, MARK.wanted)) end
  end
  if lock.n == 0 then return end
  if lock.mode ~= MODE.shared then
    local id, record = eldest(lock)
    if id then tell(id, record) end
  else
    local fields = fields_of(lock, FIELD.holder)
    -- The others learn it from their renewals.
    for i = LIMIT.portion + 1, #fields do fields[i] = nil end
    for i, record in ipairs(values_of(lock, fields)) do tell(string.sub(fields[i], 2), record) end
  end
  post(WORD.wanted, mail, LIMIT.news)
end

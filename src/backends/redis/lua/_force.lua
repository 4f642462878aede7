-- Ends one holder by force.

-- Old records of force are removed when a new one is added, so they do not accumulate. `keep`: how long they are kept, ms.
local function sweep(lock, keep)
  for _, field in ipairs(fields_of(lock, FIELD.forced)) do
    local text = redis.call('HGET', lock.key, field)
    local at, id = string.match(text, FORCED.pattern{})
    if not at or tonumber(at) + keep <= now then redis.call('HDEL', lock.key, field, FIELD.forcedFence .. (id or '')) end
  end
end

-- `who`: who ends it and why, JSON. The caller promotes and closes.
local function end_by_force(lock, field, record, terms, who)
  local id, fence = string.sub(field, 2), fence_of(record)
  redis.call('HDEL', lock.key, field)
  redis.call('HSET', lock.key,
    FIELD.forced .. fence, FORCED.text{ at = digits(now), id = id, who = who },
    FIELD.forcedFence .. id, fence)
  redis.call('PUBLISH', terms.inbox, WORD.forced .. sealed(id, MARK.forced))
  if terms.voted then redis.call('PUBLISH', lock.key, WORD.freed) end
  lock.n = lock.n - 1
  if lock.latest == id then lock.latest = WORD.nobody end
end

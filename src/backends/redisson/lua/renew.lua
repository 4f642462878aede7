-- Renews leases: each that its claim still holds lasts at least as long as asked.
--
-- KEYS[n] three for each lock: the lock, the notes beside it, and the deadline of a reader, or the lock again
-- ARGV[1] how long unused notes are kept, ms
-- ARGV[n] five for each lock: the field; lock, fenced, read or write; its fence, or "" if any will do; for how long, ms; who claims, or ""
--
-- Returns for each lock 1 if it was renewed, 2 if the claim holds it with another fence, 0 if it does not hold it, 3 if another program wrote there.

--- @include _lock

local function renewed(key, notes, limit, field, kind, fence, keep, who)
  local found = redis.call('TYPE', key).ok
  if found == 'none' then return 0 end
  -- An error would be the answer for all other locks, too.
  if found ~= 'hash' or type(redis.pcall('HLEN', notes)) == 'table' then return 3 end
  if redis.call('HEXISTS', key, field) == 0 then return 0 end
  local mode = look(key)
  if mode ~= (kind == 'fenced' and 'lock' or kind) then return 3 end
  if kind == 'read' and redis.call('PTTL', limit) <= 0 then return 0 end
  local known, since, hold, delay = noted(notes, field)
  if fence ~= '' and not known then return 3 end
  if fence ~= '' and fence ~= known then return 2 end
  lasts(key, keep)
  if kind == 'read' then lasts(limit, keep) end
  -- Not before: a server that is full lets a script go on that has written already.
  if known and who ~= '' then redis.call('HSET', notes, 'h:' .. field, table.concat({ known, since, hold, delay, who }, ':')) end
  lasts(notes, keep + ARGV[1])
  return 1
end

local answers = {}
for i = 1, #KEYS / 3 do
  local k, a = 3 * i - 3, 5 * i - 3
  answers[i] = renewed(KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a], ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3]), ARGV[a + 4])
end
return answers

-- Takes the lock if the claim may hold it now; a claim that has it keeps it.
--
-- KEYS[1] the lock
-- KEYS[2] the notes of our clients beside it
-- KEYS[3] of a fenced lock its token, of a reader its deadline; otherwise absent
-- ARGV[1] the claim's field
-- ARGV[2] what is wanted: lock, fenced, read or write
-- ARGV[3] for how long, ms
-- ARGV[4] its minHold, ms
-- ARGV[5] its lockDelay, ms
-- ARGV[6] how long unused notes are kept, ms
-- ARGV[7] who claims
-- ARGV[8] what the keys of deadlines start with
-- ARGV[9] how long the lock stays free after a lease of ours if others than ours wait, ms; 0 for a claim that need not wait for that
--
-- Returns the fence as a text; or what may be shown of the lock: see _lock.lua.

--- @include _lock

local field, kind, keep, start = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[8]
local mode, fields, counts = look(KEYS[1])
if mode == 'other' then
  return redis.error_reply('HOLDFAST its key holds a hash that is no lock of Redisson, and was left untouched: another program uses it. Choose another name or `prefix`')
end
if mode == 'lock' and (kind == 'read' or kind == 'write') then
  return redis.error_reply('HOLDFAST it is held as an RLock of Redisson, and not as an RReadWriteLock. They do not exclude each other: use one of them for this name (`kind`)')
end
if (mode == 'read' or mode == 'write') and (kind == 'lock' or kind == 'fenced') then
  return redis.error_reply('HOLDFAST it is held as an RReadWriteLock of Redisson, and not as an RLock. They do not exclude each other: use one of them for this name (`kind`)')
end
local mine = counts[field] ~= nil
if mine and kind == 'read' then mine = reads(start, field, 1) > 0 end
local fence, since = noted(KEYS[2], field)
for i = 1, math.min(#fields, 20) do
  if not noted(KEYS[2], fields[i]) then redis.call('HDEL', KEYS[2], 'turns') end
end
if not mine and mode ~= 'free' and not (kind == 'read' and mode == 'read') then
  return shown(KEYS[1], KEYS[2], kind == 'fenced' and KEYS[3], start, 5)
end
-- The more often ours had it while others waited, the longer it is left to them: on a busy machine they need more time.
local turns = tonumber(redis.call('HGET', KEYS[2], 'turns') or '') or 0
local left = tonumber(redis.call('HGET', KEYS[2], 'left') or '')
if mode == 'free' and left then
  local gap = ARGV[9] * 2 ^ math.min(turns - 1, GAP_DOUBLED_MAX)
  local rest = left + gap - now
  if rest > 0 and rest <= gap then return { now, rest, '', mode } end
end

if not mine or not fence then
  -- What others have left there is looked at before anything is written.
  local name, last, top = 'fence', 0, us
  if kind == 'fenced' then
    name = 'token'
    local count = redis.call('GET', KEYS[3]) or '0'
    if count ~= '0' and not string.match(count, '^[1-9]%d*$') then
      return redis.error_reply('HOLDFAST its token in Redis is no number, and was left untouched: another program uses ' .. KEYS[3])
    end
    top = tonumber(count) + 1
  end
  last = tonumber(string.match(redis.call('HGET', KEYS[2], name) or '', '^%d+$') or '0')
  local number = math.max(last + 1, top)
  if number >= 9007199254740991 then return redis.error_reply('HOLDFAST the fences of this lock are used up') end
  fence, since = string.format('%.0f', number), now
  -- As Redisson does, which never lets it expire. One that was lost goes on above what we remember.
  if kind == 'fenced' then redis.call('INCRBY', KEYS[3], string.format('%.0f', number - top + 1)) end
  -- Of ours whose time is over nothing is left.
  for _, note in ipairs(redis.call('HKEYS', KEYS[2])) do
    local other = string.match(note, '^h:(.*)$')
    if other and (mode == 'free' or mode == 'read' and reads(start, other, 1) <= 0) then
      redis.call('HDEL', KEYS[2], note)
      redis.call('HDEL', KEYS[1], other)
    end
  end
  if kind == 'read' or kind == 'write' then redis.call('HSET', KEYS[1], 'mode', kind) end
  redis.call('HSET', KEYS[1], field, 1)
  redis.call('HSET', KEYS[2], name, fence, 'h:' .. field, table.concat({ fence, since, ARGV[4], ARGV[5], ARGV[7] }, ':'))
  if kind == 'read' then redis.call('SET', KEYS[3], 1, 'PX', keep) end
end
lasts(KEYS[1], keep)
if kind == 'read' then lasts(KEYS[3], keep) end
lasts(KEYS[2], keep + ARGV[6])
return fence

-- Finds the lease of a claim by the beginning of its id.
--
-- KEYS[1] the lock
-- ARGV[1] the beginning of the id
--
-- Returns "<id> <fence>", or 0 if no holder's id begins with it.

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local id, record
  -- A lock's only holder is in the state itself.
  if fields[i] == FIELD.state then id, record = string.match(fields[i + 1], STATE_ALONE.pattern{})
  elseif string.sub(fields[i], 1, 1) == FIELD.holder then id, record = string.sub(fields[i], 2), fields[i + 1] end
  if id and string.sub(id, 1, #ARGV[1]) == ARGV[1] and string.sub(record, RECORD.till) > now then
    return id .. ' ' .. string.match(record, RECORD.pattern{ number = '(%d+)' })
  end
end
return 0

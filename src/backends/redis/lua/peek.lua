-- Reads who holds a lock and who waits, and changes nothing.
--
-- KEYS[1] the lock
--
-- Returns { now in ms, field, value, field, value, … }.

local time = redis.call('TIME')
local answer = redis.call('HGETALL', KEYS[1])
-- Long, and not asked for.
for i = 1, #answer, 2 do
  if answer[i] == FIELD.outcome then answer[i + 1] = '' end
end
table.insert(answer, 1, time[1] .. string.sub('00000' .. time[2], -6, -4))
return answer

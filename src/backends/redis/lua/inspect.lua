-- Reads a lock, and for how long nothing may be granted there. Changes nothing.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the quarantine (see _identity); absent without
--
-- Returns { now in ms, the rest of the quarantine in ms, field, value, field, value, … }.

--- @include _replicas
--- @include _incarnation

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local answer = redis.call('HGETALL', KEYS[1])
local marker = KEYS[2] or string.match(KEYS[1], '^.-:{%x%x}')
local asked = tonumber(string.match(ARGV[1] or '0', '^%d+'))
-- A marker that is not here (a slot is being moved) counts as none.
local known = marker and redis.pcall('EXISTS', marker) == 1
local rest = (known or asked > 0) and rest_ms(marker, asked, now + 0) or 0
table.insert(answer, 1, string.format('%.0f', rest))
table.insert(answer, 1, now)
return answer

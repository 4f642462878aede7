-- Reads from the notes beside a lock who was forced out of it.
--
-- KEYS[1] the notes
--
-- Returns now, the lock's name, and "<when> <fence> <why>"; or nothing.

local name, forced = unpack(redis.call('HMGET', KEYS[1], 'name', 'forced'))
local at, _, fence, why = string.match(forced or '', '^(%d+) (%S+) (%d+) (.*)$')
if not at or not name then return {} end
local time = redis.call('TIME')
return { time[1] * 1000 + math.floor(time[2] / 1000), name, table.concat({ at, fence, why }, ' ') }

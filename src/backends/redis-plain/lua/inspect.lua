-- Reads one lock, and changes nothing.
--
-- KEYS[1] the lock
-- KEYS[2] the notes of our clients beside it
--
-- Returns now, how long until the key expires (-1: never, -2: it is free), the holder as shown or "", and who was forced out or "".

--- @include _value

local value = redis.call('GET', KEYS[1])
local forced = redis.call('HGET', KEYS[2], 'forced') or ''
local at, _, fence, why = string.match(forced, '^(%d+) (%S+) (%d+) (.*)$')
local ended = at and table.concat({ at, fence, why }, ' ') or ''
return { now, redis.call('PTTL', KEYS[1]), value and shown(value) or '', ended }

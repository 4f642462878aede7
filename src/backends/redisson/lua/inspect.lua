-- Reads one lock, and changes nothing.
--
-- KEYS[1] the lock
-- KEYS[2] the notes of our clients beside it
-- KEYS[3] of a fenced lock its token, otherwise absent
-- ARGV[1] what the keys of deadlines start with
--
-- Returns who was forced out or "", and then what may be shown of the lock: see _lock.lua.

--- @include _lock

local forced = redis.call('HGET', KEYS[2], 'forced') or ''
local at, _, fence, why = string.match(forced, '^(%d+) (%S+) (%d+) (.*)$')
return { at and table.concat({ at, fence, why }, ' ') or '', unpack(shown(KEYS[1], KEYS[2], KEYS[3], ARGV[1], 1000)) }

-- Says who ended a claim's lease by force.
--
-- KEYS[1] the notes of our clients beside the lock
-- ARGV[1] the claim's id
--
-- Returns who and why as JSON, or "" if that is not known.

local forced = redis.call('HGET', KEYS[1], 'forced') or ''
local id, why = string.match(forced, '^%d+ (%S+) %d+ (.*)$')
return id == ARGV[1] and why or ''

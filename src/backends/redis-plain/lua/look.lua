-- Reads a key that may be a lock, and changes nothing.
--
-- KEYS[1] the key
--
-- Returns now, how long until it expires (-1: never), and the holder as shown; "" if it is free.

--- @include _value

local value = redis.call('GET', KEYS[1])
return { now, redis.call('PTTL', KEYS[1]), value and shown(value) or '' }

-- Marks this server's incarnation as known: an operator says that no lease granted by its lost memory is alive.
--
-- KEYS[1] the marker
-- ARGV[1] the quarantine that holds from now on, ms, also if it was longer before
--
-- Returns 1.

--- @include _incarnation

mark(KEYS[1], 0, tonumber(ARGV[1]), redis.call('TIME')[1] * 1000)
return 1

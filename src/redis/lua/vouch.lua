-- Marks this server's incarnation as known: an operator says that no lease granted by its lost memory is alive.
--
-- KEYS[1] the marker
--
-- Returns 1.

--- @include _incarnation

mark(KEYS[1], 0, redis.call('TIME')[1] * 1000)
return 1

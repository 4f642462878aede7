-- Ends the quarantine: an operator says that no lease which the lost memory held is still alive.
--
-- KEYS[1] the marker
-- ARGV[1] the quarantine from now on, ms, even if another was asked for before
-- ARGV[2] the longest silence of a replica that counts from now on, in seconds; absent without one
--
-- Returns 1.

--- @include _replicas
--- @include _incarnation

if ARGV[2] then redis.call('HSET', KEYS[1], MARKER.lag, ARGV[2]) else redis.call('HDEL', KEYS[1], MARKER.lag) end
mark(KEYS[1], 0, tonumber(ARGV[1]), redis.call('TIME')[1] * 1000)
return 1

-- Called by a process that uses this server as a quorum member: each learns the other's quarantine.
--
-- KEYS[1] the marker of this server's incarnation
-- ARGV[1] the quarantine that the process asks for, ms; 0 if it considers the server durable
--
-- Returns { this server's id, the longest quarantine that was asked for before, ms; -1 if none was }.

--- @include _replicas
--- @include _incarnation

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('HMGET', KEYS[1], MARKER.run, MARKER.history, MARKER.span)
local before = known[3] or '-1'
local _, who = young_ms(KEYS[1], tonumber(ARGV[1]), now)
-- A copy of a durable server has the original's marker, and would be taken for the original.
if not who or before == '0' and ARGV[1] == '0' and not tells(info(), known) then who = mark(KEYS[1], now, 0, now) end
return { who, before }

-- Introduces a process to this server as a quorum's member: each learns the other's quarantine.
--
-- KEYS[1] the marker of this server's incarnation
-- ARGV[1] the quarantine that the process asks for, ms; 0 when it takes the server for durable
--
-- Returns { who this server is, the longest quarantine that was asked for before, ms; -1 when none was }.

--- @include _replicas
--- @include _incarnation

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('HMGET', KEYS[1], MARKER.run, MARKER.history, MARKER.span)
local before = known[3] or '-1'
local _, who = young_ms(KEYS[1], tonumber(ARGV[1]), now)
-- A durable server that was copied has its model's marker, and would be taken for it.
if not who or before == '0' and ARGV[1] == '0' and not tells(info(), known) then who = mark(KEYS[1], now, 0, now) end
return { who, before }

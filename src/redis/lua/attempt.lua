-- Grants the claim if it may hold the lock now, else queues it if its terms have a ticket.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent without quarantine
-- ARGV[1] the claim's id
-- ARGV[2] the claim's terms
-- ARGV[3] the quarantine, ms; absent without quarantine
--
-- Returns the fence as a decimal string, or { place, ms until the earliest end, now, a holder's record }.

--- @include _incarnation
--- @include _lock
--- @include _enter

local lock = open(KEYS[1], ARGV[1])
if not lock then return redis.error_reply('HOLDFAST_FOREIGN') end
local young = KEYS[2] and young_ms(KEYS[2], tonumber(ARGV[3]), now) or 0
return enter(lock, ARGV[1], parse(ARGV[2]), young)

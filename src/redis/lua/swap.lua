-- Ends one claim and attempts another on the same lock, so that a process whose run of fences is spent gets the next
-- run at once when nobody else waits, and a place in the queue when somebody does.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the next claim's id
-- ARGV[2] the next claim's terms
-- ARGV[3] the ending claim's id
-- ARGV[4] the quarantine, ms; absent without quarantine
--
-- Returns { 1 when the ending claim was known, else 0; what attempt returns }.

--- @include _incarnation
--- @include _lock
--- @include _enter
--- @include _leave

local lock = open(KEYS[1], ARGV[3])
if not lock then return redis.error_reply('HOLDFAST_FOREIGN') end
local released = leave(lock, ARGV[3])
local next_claim = redis.call('HMGET', KEYS[1], 'h' .. ARGV[1], 'w' .. ARGV[1])
lock.held, lock.waits = next_claim[1], next_claim[2]
local young = young_or_0(marker_of(KEYS[1], KEYS[2]), ARGV[4], now)
local answer = enter(lock, ARGV[1], parse(ARGV[2]), young)
if type(answer) == 'table' and answer.err then return answer end
return { released, answer }

-- Ends one claim and attempts another on the same lock: a process that has used up its run of fences gets the next run at once if no
-- other claim waits, and a place in the queue otherwise.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the next claim's id
-- ARGV[2] the next claim's terms
-- ARGV[3] the ending claim's id, and "!" if its minHold counts
-- ARGV[4] the quarantine (see _identity); absent without
--
-- Returns { what release returns of the ending claim, what attempt returns of the next }.

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _mail
--- @include _outcome
--- @include _queue
--- @include _wanted
--- @include _enter
--- @include _leave

local ending, keeps = leaving(ARGV[3])
local lock = open(KEYS[1], ending)
if not lock then return redis.error_reply(WORD.foreign) end
local young = young_at(lock, marker_of(KEYS[1], KEYS[2]), ARGV[4], now)
if lock.cut_off then return redis.error_reply(CUT_OFF) end
local released = leave(lock, ending, keeps)
local next_claim = redis.call('HMGET', KEYS[1], FIELD.holder .. ARGV[1], FIELD.waiter .. ARGV[1])
if not know(lock, ARGV[1], next_claim[1], next_claim[2]) then return redis.error_reply(WORD.foreign) end
local answer = enter(lock, ARGV[1], parse(ARGV[2]), young)
if type(answer) == 'table' and answer.err then return answer end
return { released, answer }

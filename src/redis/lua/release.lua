-- Ends the claim, held or queued, and grants the lock to the next waiters in the same step.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent without quarantine
-- ARGV[1] the claim's id
-- ARGV[2] the quarantine, ms; absent without quarantine
--
-- Returns 1, or 0 when the lock knew nothing of the claim.

-- The usual case comes first and alone: the claim is the only one here, and its release needs nothing special.
local state = redis.call('HGET', KEYS[1], 's')
local alone = ' =' .. ARGV[1] .. ' '
local flag = state and string.sub(state, 31, 30 + #alone) == alone and string.sub(state, 76 + #alone, 76 + #alone)
if flag == '.' or flag == 'v' then
  local time = redis.call('TIME')
  local ended = string.sub(state, 31 + #alone, 43 + #alone) > time[1] .. string.sub('00000' .. time[2], -6, -4)
  local done = redis.pcall('HSET', KEYS[1], 's', string.sub(state, 1, 30))
  if type(done) == 'table' then
    -- A full server (noeviction) takes no new data, but does after a deletion in the same script.
    redis.call('HDEL', KEYS[1], '-')
    redis.call('HSET', KEYS[1], 's', string.sub(state, 1, 30))
  end
  if ended and flag == 'v' then redis.call('PUBLISH', KEYS[1], 'freed') end
  return ended and 1 or 0
end

--- @include _incarnation
--- @include _lock
--- @include _leave

local lock = open(KEYS[1], ARGV[1])
if not lock then return redis.error_reply('HOLDFAST_FOREIGN') end
local ended = leave(lock, ARGV[1])
local waited_for = lock.queued > 0
if waited_for then
  local young = KEYS[2] and young_ms(KEYS[2], tonumber(ARGV[2]), now) or 0
  prune(lock)
  if young == 0 then promote(lock) end
end
if ended == 1 or waited_for then close(lock) end
return ended

-- Takes back a vote for a ballot that never became a lease: ends the claim, and removes the ballot if none was granted since.
-- Otherwise the greater ballots of claims that fail would exclude the holder from members which it lost and could get again.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation
-- ARGV[1] the claim's id
--
-- Returns what release returns.

local fields = redis.call('HMGET', KEYS[1], FIELD.state, FIELD.ballot)
local state = fields[1]
local voter, before = string.match(fields[2] or '', BALLOT.pattern{ id = voter, last = before })
if voter ~= ARGV[1] or #before ~= BALLOT.last.width then before = nil end
local alone = MARK.alone .. ARGV[1] .. ' '
if state and string.sub(state, STATE.width + 1, STATE.width + #alone) == alone then
  local record = string.sub(state, STATE.width + 1 + #alone)
  local last = string.sub(state, STATE.last)
  local time = redis.call('TIME')
  local held = string.sub(record, RECORD.till) > time[1] .. string.sub('00000' .. time[2], -6, -4)
  if held and before and string.sub(record, RECORD.number) == last then last = before end
  -- After a deletion in the same script, a full server (noeviction) accepts what follows.
  redis.call('HDEL', KEYS[1], FIELD.ballot)
  redis.call('HSET', KEYS[1], FIELD.state, STATE.text{ last = last, death = string.sub(state, STATE.death) })
  if held then redis.call('PUBLISH', KEYS[1], WORD.freed) end
  return held and 1 or 0
end

--- @include _replicas
--- @include _incarnation
--- @include _identity
--- @include _lock
--- @include _mail
--- @include _outcome
--- @include _queue
--- @include _leave

local lock = open(KEYS[1], ARGV[1])
if not lock then return redis.error_reply(WORD.foreign) end
local mine = lock.held and ends(lock.held) > now and tonumber(fence_of(lock.held)) == lock.fence
local ended = leave(lock, ARGV[1], false)
if mine and before then lock.fence = tonumber(before) end
local waited_for = lock.queued > 0
if waited_for then
  local young = young_at(lock, KEYS[2], nil, now)
  prune(lock)
  if young == 0 then promote(lock) end
end
if ended > 0 or waited_for then close(lock) end
return lock.busy and ended + 4 or ended

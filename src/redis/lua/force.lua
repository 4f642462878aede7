-- Ends the lease whose run of fences contains the given one, tells its holder, and lets the next waiters in.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation; absent in a cluster without quarantine
-- ARGV[1] the fence, a decimal string
-- ARGV[2] who and why, JSON
-- ARGV[3] how long the record of this is kept, ms
-- ARGV[4] the quarantine, ms; absent without quarantine
--
-- Returns 1, or 0 when no lease has that fence.

--- @include _incarnation
--- @include _lock

local key, fence, keep = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[3])
local lock = open(key, '')
if not lock then return redis.error_reply('HOLDFAST_FOREIGN') end
prune(lock)
local fields = redis.call('HGETALL', key)
for i = 1, #fields, 2 do
  local kind, id, record = string.sub(fields[i], 1, 1), string.sub(fields[i], 2), fields[i + 1]
  -- Old records of force go when a new one comes, so that they never pile up.
  if kind == 'o' and ends(record) + keep <= now then redis.call('HDEL', key, fields[i]) end
  if kind == 'h' and ends(record) > now then
    local first, terms = tonumber(fence_of(record)), parse(terms_of(record))
    if first <= fence and fence <= first + terms.more then
      redis.call('HDEL', key, fields[i])
      redis.call('HSET', key, 'o' .. fence_of(record), string.format('%013.0f %s %s', now, id, ARGV[2]))
      redis.call('PUBLISH', terms.inbox, 'forced ' .. id .. ' ' .. ARGV[2])
      if terms.voted then redis.call('PUBLISH', key, 'freed') end
      lock.n = lock.n - 1
      if lock.latest == id then lock.latest = '-' end
      local young = young_or_0(marker_of(KEYS[1], KEYS[2]), ARGV[4], now)
      if lock.queued > 0 and young == 0 then promote(lock) end
      close(lock, now + keep, terms.idle)
      return 1
    end
  end
end
return 0

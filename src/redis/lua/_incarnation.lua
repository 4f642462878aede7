-- Notices that this server may have forgotten leases: it restarted, was flushed, failed over or is another server.
--
-- A marker that equals run_id and master_replid proves that this very process has been primary, with this very
-- memory, without a break since the marker was written. Otherwise nothing may be granted until every lease that
-- the lost memory may have held is over: the quarantine, by this server's own clock.

local MARKER_MS = 30 * 24 * 3600 * 1000

local function incarnation()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local history = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
  return (run or '?') .. ':' .. (history or '?')
end

local function mark(marker, epoch, till)
  redis.call('HSET', marker, 'epoch', epoch, 'until', string.format('%.0f', till))
  redis.call('PEXPIRE', marker, MARKER_MS)
end

local function young_ms(marker, quarantine, now)
  local epoch = incarnation()
  local known = redis.call('HMGET', marker, 'epoch', 'until')
  local left = tonumber(known[2] or '0') - now
  -- A clock that was set back must not prolong the quarantine beyond a whole one from now.
  if known[1] ~= epoch or left > quarantine then
    mark(marker, epoch, now + quarantine)
    return quarantine
  end
  if left > 0 then return left end
  if redis.call('PTTL', marker) < MARKER_MS / 2 then redis.call('PEXPIRE', marker, MARKER_MS) end
  return 0
end

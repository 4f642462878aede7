-- Notices that this server may have forgotten leases: it restarted, was flushed, failed over or is another server.
--
-- The marker has the lines of INFO that tell run_id and master_replid. That they are there still proves that this very
-- process has been primary, with this very memory, without a break since the marker was written. Otherwise nothing may be
-- granted until every lease that the lost memory may have held is over: the quarantine, by this server's own clock.
--
-- The marker is a hash: run, history (the lines), until (when the quarantine is over), death (when the hash may vanish).

local MARKER_MS = 30 * 24 * 3600 * 1000

-- A server that does not tell one of them is believed as far as the other goes.
local function line(section, name)
  return string.match(redis.call('INFO', section), '\n' .. name .. ':%x+\r') or ''
end

local function tells(text, known)
  return string.find(text, known[1], 1, true) and string.find(text, known[2], 1, true)
end

-- One call is cheaper. Servers that tell scripts their version are mostly new enough to take two sections in it.
local function is_known(known)
  local both = redis.REDIS_VERSION_NUM and redis.pcall('INFO', 'server', 'replication')
  if type(both) == 'string' and tells(both, known) then return true end
  return tells(redis.call('INFO', 'server') .. redis.call('INFO', 'replication'), known)
end

local function keep(marker, now)
  local death = string.format('%.0f', now + MARKER_MS)
  redis.call('HSET', marker, 'death', death)
  redis.call('PEXPIREAT', marker, death)
end

local function mark(marker, till, now)
  redis.call('HSET', marker, 'run', line('server', 'run_id'), 'history', line('replication', 'master_replid'),
    'until', string.format('%.0f', till))
  keep(marker, now)
end

local function young_ms(marker, quarantine, now)
  local known = redis.call('HMGET', marker, 'run', 'history', 'until', 'death')
  local left = (known[3] or 0) - now
  -- A clock that was set back must not prolong the quarantine beyond a whole one from now.
  if left > quarantine or not known[4] or not is_known(known) then
    mark(marker, now + quarantine, now)
    return quarantine
  end
  if left > 0 then return left end
  if known[4] - now < MARKER_MS / 2 then keep(marker, now) end
  return 0
end

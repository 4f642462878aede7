-- Notices that this server may have lost leases: it restarted, was flushed, failed over, is another server, or its databases were
-- swapped, even there and back. Says which server it is, so that none is counted twice.
--
-- The marker has the lines of INFO with run_id and master_replid, and the database it was made in. If they are unchanged, this
-- process has been the primary, with the same memory, without a break since the marker was written. Otherwise nothing may be
-- granted until all leases that the lost memory may have held are over: the quarantine, by this server's own clock. It is the
-- longest that any process asked for, and applies to all processes that find a marker, even if they ask for less.
--
-- The marker is a hash: run, history (the lines), who (the server's id for voters), born (a stamp that no other marker has), db
-- (its database; '' if the server does not let scripts choose one), since (when the loss was noticed; 0: an operator ended
-- the quarantine), span (the longest quarantine, ms), lag (after how many seconds of silence a replica counts as lost: the least that
-- any process asked for; see _replicas), death (when the hash may vanish).

local MARKER_MS = 30 * 24 * 3600 * 1000

-- In a cluster a second key would make a lock unusable while its slot is moved, so it is one of KEYS only if a quarantine is asked
-- for. It is in the lock's slot.
local function marker_of(key, marker)
  return marker or string.match(key, '^.-:{%x%x}')
end

-- If a server shows only one of them, that one decides.
local function line(section, name)
  return string.match(redis.call('INFO', section), '\n' .. name .. ':%x+\r') or ''
end

local function tells(text, known)
  return string.find(text, known[1], 1, true) and string.find(text, known[2], 1, true)
end

local function enters(db)
  return not redis.pcall('SELECT', db).err
end

-- A script does not know its database: so it looks for the one that has this marker, and stays there.
local function find(marker, born)
  local db = 0
  while enters(db) do
    if redis.pcall('HGET', marker, MARKER.born) == born then return db end
    db = db + 1
  end
  return ''
end

-- False after SWAPDB: the marker came here with another database's locks, or this database's marker is elsewhere now.
local function is_here(marker, db, born)
  if db == '' or not enters(db) or redis.pcall('HGET', marker, MARKER.born) == born then return true end
  find(marker, born)
  return false
end

-- The marker that was here before a SWAPDB does not know what is granted here from now on. If another SWAPDB brings it back, its
-- run is one that no server has.
local function supersede(marker, here)
  if here == '' then return end
  local db = 0
  while enters(db) do
    if db ~= here and redis.pcall('HGET', marker, MARKER.db) == tostring(here) then
      redis.call('HSET', marker, MARKER.run, 'superseded\n')
    end
    db = db + 1
  end
  enters(here)
end

local function keep(marker, now)
  local death = string.format('%.0f', now + MARKER_MS)
  redis.call('HSET', marker, MARKER.death, death)
  redis.call('PEXPIREAT', marker, death)
end

local function mark(marker, since, span, now)
  local run, history = line('server', 'run_id'), line('replication', 'master_replid')
  -- Half of the run_id, or of the history if the server does not show the run_id.
  local who = run ~= '' and string.sub(run, 9, 28) or string.sub(history, 16, 35)
  local time = redis.call('TIME')
  local born = time[1] .. '.' .. time[2]
  -- After a deletion, a full server (noeviction) accepts what follows.
  redis.call('HDEL', marker, MARKER.db)
  redis.call('HSET', marker, MARKER.run, run, MARKER.history, history, MARKER.who, who, MARKER.born, born,
    MARKER.since, string.format('%.0f', since), MARKER.span, string.format('%.0f', span))
  local db = find(marker, born)
  redis.call('HSET', marker, MARKER.db, db)
  supersede(marker, db)
  keep(marker, now)
  return who
end

local KNOWN = {
  MARKER.run, MARKER.history, MARKER.db, MARKER.born, MARKER.since, MARKER.span, MARKER.death, MARKER.who, MARKER.lag,
}

-- Whether leases may have been lost that the marker does not know of. `text`: what the server says of itself, unless no quarantine was
-- ever asked for.
local function is_lost(marker, known, now, text)
  -- After the clock was set back, a quarantine would last longer than it should.
  return not known[7] or (tonumber(known[5]) or now) > now
    or text and not (tells(text, known) and is_here(marker, known[3], known[4]))
end

-- As young_ms, for those who only look.
local function rest_ms(marker, quarantine, now)
  local known = redis.call('HMGET', marker, unpack(KNOWN))
  if not known[7] and quarantine == 0 then return 0 end
  local span = math.max(quarantine, tonumber(known[6]) or 0)
  if is_lost(marker, known, now, span > 0 and info()) then return span end
  return math.max(0, (tonumber(known[5]) or now) + span - now)
end

-- How long nothing may be granted here, ms; this server's id; and whether it seems to have lost its replicas. A caller that asks
-- for no quarantine (0) makes no marker, and gets no id if there is no marker.
local function young_ms(marker, quarantine, now, lag)
  local known = redis.call('HMGET', marker, unpack(KNOWN))
  if not known[7] and quarantine == 0 then return 0 end
  local longest, least = tonumber(known[6]) or 0, tonumber(known[9])
  local span = math.max(quarantine, longest)
  local since = tonumber(known[5]) or now
  local text = span > 0 and info()
  if is_lost(marker, known, now, text) then
    local who = mark(marker, now, span, now)
    if lag and lag < (least or math.huge) then redis.call('HSET', marker, MARKER.lag, lag) end
    return span, who
  end
  if lag and lag < (least or math.huge) then
    least = lag
    redis.call('HSET', marker, MARKER.lag, lag)
  end
  if span > longest then redis.call('HSET', marker, MARKER.span, string.format('%.0f', span)) end
  if known[7] - now < MARKER_MS / 2 then keep(marker, now) end
  return math.max(0, since + span - now), known[8], text and is_cut_off(text, least)
end

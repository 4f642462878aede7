-- Notices that this primary lost its replicas before the server itself does.
--
-- `min-replicas-to-write` uses a count that the server makes once a second. A server that stood still (a paused machine, a stopped
-- process) executes what is in its sockets before it counts again: the count is as old as the stop, and meanwhile another server may
-- have been promoted, and its quarantine may be over. But INFO computes the silence of each replica when it is asked.

local CUT_OFF = 'NOREPLICAS Not enough replicas answered of late.'

-- Servers that show scripts their version are mostly new enough to take two sections in one call, which is cheaper.
local function info()
  local both = redis.REDIS_VERSION_NUM and redis.pcall('INFO', 'server', 'replication')
  if type(both) == 'string' and string.find(both, '\nmaster_replid:', 1, true) then return both end
  return redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
end

-- `lag`: the longest silence of a replica that still counts, in seconds. Without `min-replicas-to-write` nothing is counted.
local function is_cut_off(text, lag)
  local counted = tonumber(string.match(text, '\nmin_slaves_good_slaves:(%d+)'))
  if not counted or not lag then return false end
  for silence in string.gmatch(text, '\nslave%d+:[^\r]*state=online[^\r]*,lag=(%-?%d+)') do
    if tonumber(silence) <= lag then counted = counted - 1 end
  end
  return counted > 0
end

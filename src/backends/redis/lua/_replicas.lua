-- Notices that this primary lost its replicas without having noticed itself.
--
-- `min-replicas-to-write` goes by a count that the server makes once a second. A server that stood still (a paused machine, a
-- stopped process) carries out what lies in its sockets before it counts again: the count is as old as the stop, and in that
-- time another may have been promoted, and its quarantine have passed. But how long each replica has been silent, INFO
-- reckons when it is asked.

local CUT_OFF = 'NOREPLICAS Not enough replicas answered of late.'

-- Servers that tell scripts their version are mostly new enough to take two sections in one call, which is cheaper.
local function info()
  local both = redis.REDIS_VERSION_NUM and redis.pcall('INFO', 'server', 'replication')
  if type(both) == 'string' and string.find(both, '\nmaster_replid:', 1, true) then return both end
  return redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
end

-- `lag`: the longest silence of a replica that still counts, in seconds. A server that does not count replicas says so.
local function is_cut_off(text, lag)
  local counted = tonumber(string.match(text, '\nmin_slaves_good_slaves:(%d+)'))
  if not counted or not lag then return false end
  for silence in string.gmatch(text, '\nslave%d+:[^\r]*state=online[^\r]*,lag=(%-?%d+)') do
    if tonumber(silence) <= lag then counted = counted - 1 end
  end
  return counted > 0
end

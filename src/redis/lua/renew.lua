-- Renews holders, each for its own time and with its own answer: one bad lock never harms another.
--
-- KEYS[1..] the locks, one per claim
-- ARGV[1..] per claim: its id, then ttl + lockDelay in ms, then the idle time of the lock's hash
--
-- Returns per claim 1, or why not: "gone", the record of the force that ended it, or "!" and an error.

--- @include _lock

-- The usual case: the claim is the only one here.
local function renew_alone(key, state, id, keep, idle)
  local from = 33 + #id
  local till = tonumber(string.sub(state, from + 1, from + 13))
  if till <= now then return false end
  till = math.max(till, now + keep)
  local death = math.max(tonumber(string.sub(state, 18, 30)), till + idle)
  redis.call('PEXPIREAT', key, string.format('%.0f', death))
  redis.call('HSET', key, 's', string.sub(state, 1, 17) .. string.format('%013.0f', death)
    .. string.sub(state, 31, from) .. string.format('%013.0f', till) .. string.sub(state, from + 14))
  return true
end

local function renew(key, id, keep, idle)
  local state = redis.call('HGET', key, 's')
  if state and string.sub(state, 31, 33 + #id) == ' =' .. id .. ' ' and renew_alone(key, state, id, keep, idle) then
    return 1
  end
  local lock = open(key, id)
  if not lock then return '!HOLDFAST_FOREIGN' end
  if lock.held and ends(lock.held) > now then
    local till = now + keep
    -- Touching the hash first lets a full server (noeviction) accept the renewal that follows.
    redis.call('HDEL', key, '-')
    extend(lock, id, till)
    close(lock, till, idle)
    return 1
  end
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 1) == 'o' and string.match(fields[i + 1], '^%d+ (%S+) ') == id then
      return fields[i + 1]
    end
  end
  return 'gone'
end

local answers = {}
for i, key in ipairs(KEYS) do
  answers[i] = separately(renew, key, ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i]))
end
return answers

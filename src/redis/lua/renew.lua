-- Renews holders, each for its own time and with its own answer: one bad lock never harms another.
--
-- KEYS[1..] the locks, one per claim
-- ARGV[1..] per claim: its id, then ttl + lockDelay in ms, then the idle time of the lock's hash
--
-- Returns per claim 1, or why not: "gone", the record of the force that ended it, or "!" and an error.

--- @include _lock

local function renew(key, id, keep, idle)
  local lock = open(key, id)
  if not lock then return '!HOLDFAST_FOREIGN' end
  if lock.held and ends(lock.held) > now then
    local till = now + keep
    -- Touching the key's expiry first lets a full server (noeviction) accept the renewal that follows.
    redis.call('PEXPIREAT', key, string.format('%.0f', math.max(lock.death, till + idle)))
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

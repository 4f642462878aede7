-- Grants a proposed fence to the claim if the lock is free and the ballot is above every fence granted before.
--
-- KEYS[1] the lock
-- KEYS[2] the marker of this server's incarnation
-- ARGV[1] the claim's id
-- ARGV[2] the claim's terms
-- ARGV[3] the ballot, 16 digits; and, after a space, the quarantine in ms, 0 if the server is durable
--
-- Returns "<now> <server>", or "<now> <server> <waiters>", if it was granted; otherwise a VOTE with "held", "low" or "young". Server:
-- the voter's id, so that one with two names counts once. Waiters: how many connections listen for this lock's release.

--- @include _replicas
--- @include _incarnation

local state = redis.call('HGET', KEYS[1], FIELD.state)
if not state and redis.call('EXISTS', KEYS[1]) == 0 then state = STATE.zero end
local last, death = tonumber(string.sub(state or '', STATE.last)), tonumber(string.sub(state or '', STATE.death))
if not last or not death then return redis.error_reply(WORD.foreign) end
local time = redis.call('TIME')
local stamp = time[1] .. string.sub('00000' .. time[2], -6, -4)
local young, who = young_ms(KEYS[2], string.sub(ARGV[3], RECORD.number.width + 2) + 0, stamp + 0)
if young > 0 then return VOTE.reply{ vote = WORD.young, now = stamp, server = who, detail = string.format('%.0f', young) } end
-- A durable server has only the marker that its first voter wrote.
who = who or mark(KEYS[2], stamp + 0, 0, stamp + 0)
local ballot = string.sub(ARGV[3], 1, RECORD.number.width)
local waiters = redis.call('PUBSUB', 'NUMSUB', KEYS[1])[2]
local yes = stamp .. ' ' .. who
if waiters ~= 0 then yes = yes .. ' ' .. waiters end

-- The usual cases come first, without reading the whole lock: no holder, or one exclusive holder. Fixed widths, because patterns and
-- formats are slow.
if #state == STATE.width and ballot + 0 > last and string.sub(ARGV[2], TERMS.mode) == MODE.exclusive
  and string.sub(ARGV[2], TERMS.limit.from - 1, TERMS.limit.from + 1) == ' 1 ' then
  local till, idle = stamp + string.sub(ARGV[2], TERMS.keep), string.sub(ARGV[2], TERMS.idle)
  local moved = till + idle > death
  local vanishes = string.sub(state, STATE.death)
  if moved then vanishes = string.format(STATE.death.format, till + idle + math.floor(idle / 2)) end
  redis.call('HSET', KEYS[1],
    FIELD.state, STATE_ALONE.text{
      last = ballot, death = vanishes, id = ARGV[1], till = till, since = stamp, number = ballot, terms = ARGV[2],
    },
    FIELD.ballot, BALLOT.text{ id = ARGV[1], last = string.sub(state, STATE.last) })
  if moved then redis.call('PEXPIREAT', KEYS[1], vanishes) end
  return yes
end
if string.sub(state, STATE.width + 1, STATE.width + MARK.alone.length) == MARK.alone then
  local at = string.find(state, ' ', STATE.width + 1 + MARK.alone.length, true) or STATE.width + 1 + MARK.alone.length
  local ends = tonumber(string.sub(state, at + RECORD.till.from, at + RECORD.till.to))
  if ends and ends > stamp + 0 and string.sub(state, STATE.width + 1 + MARK.alone.length, at - 1) ~= ARGV[1] then
    return VOTE.reply{ vote = WORD.held, now = stamp, server = who, detail = string.sub(state, at + 1), waiters = waiters }
  end
end

--- @include _lock

local lock = open(KEYS[1], ARGV[1])
if not lock then return redis.error_reply(WORD.foreign) end
local id, terms = ARGV[1], parse(ARGV[2])
ballot = tonumber(ballot)
local till = now + terms.keep
prune(lock)
local mine = lock.held and ends(lock.held) > now
if mine and tonumber(fence_of(lock.held)) == ballot then
  extend(lock, id, till)
  close(lock, till, terms.idle)
  return yes
end
if not mine and not admits(lock, terms) then
  close(lock)
  local record = redis.call('HGET', KEYS[1], FIELD.holder .. lock.latest) or ''
  return VOTE.reply{ vote = WORD.held, now = stamp, server = who, detail = record, waiters = waiters }
end
if ballot <= lock.fence then
  close(lock)
  return VOTE.reply{ vote = WORD.low, now = stamp, server = who, detail = string.format('%.0f', lock.fence) }
end
-- A higher ballot of the holder itself raises its fence.
if mine then lock.n = lock.n - 1 end
redis.call('HSET', KEYS[1], FIELD.ballot, BALLOT.text{ id = id, last = digits(lock.fence) })
lock.fence = ballot
hold(lock, id, terms, till, ballot)
close(lock, till, terms.idle)
return yes

-- Ends the claim's lease, and nothing else.
--
-- KEYS[1] the lock
-- KEYS[2] the notes of our clients beside it
-- ARGV[1] the claim's field
-- ARGV[2] its minHold, ms; -1: the one that it was granted with
-- ARGV[3] the id of this request: one that was sent twice is answered twice in the same way
-- ARGV[4] how long unused notes are kept, ms
-- ARGV[5] what the keys of deadlines start with
-- ARGV[6] the channel on which others wait
-- ARGV[7] "1": in a cluster, whose sharded channels are used too
--
-- Returns 1 if the claim held the lock, 0 if not.

--- @include _lock

local field, start = ARGV[1], ARGV[5]
if redis.call('HGET', KEYS[2], 'over') == ARGV[3] then return 1 end
if redis.call('HEXISTS', KEYS[1], field) == 0 then return 0 end
local mode = redis.call('HGET', KEYS[1], 'mode')
local fence, since, hold, _, who = noted(KEYS[2], field)
redis.call('HDEL', KEYS[2], 'h:' .. field)
if mode == 'read' and reads(start, field, 1) <= 0 then
  leave(KEYS[1], KEYS[2], field, start, ARGV[6], ARGV[7])
  return 0
end

redis.call('HSET', KEYS[2], 'over', ARGV[3])
if ARGV[2] ~= '-1' then hold = ARGV[2] end
-- A clock that was set back does not make it longer.
local rest = fence and math.min(tonumber(hold), since + hold - now) or 0
-- What another program has joined is not kept from it.
local _, fields = look(KEYS[1])
if mode ~= 'read' and #fields ~= 1 then rest = 0 end
lasts(KEYS[2], tonumber(ARGV[4]))
if rest <= 0 then
  leave(KEYS[1], KEYS[2], field, start, ARGV[6], ARGV[7])
  return 1
end

local kept = KEPT .. (mode == 'write' and ':write' or '')
redis.call('HSET', KEYS[1], kept, 1)
redis.call('HSET', KEYS[2], 'h:' .. kept, table.concat({ fence, since, hold, '0', who }, ':'))
if mode == 'read' then
  local key = deadline(start, kept, 1)
  redis.call('SET', key, 1, 'PX', math.max(rest, redis.call('PTTL', key)))
  leave(KEYS[1], KEYS[2], field, start, ARGV[6], ARGV[7])
else
  redis.call('HDEL', KEYS[1], field)
  redis.call('PEXPIRE', KEYS[1], rest)
end
-- Who waits asks again, and learns that the key expires earlier: no process reports its end.
report(KEYS[2], ARGV[6], ARGV[7], mode == 'write' and '1' or '0')
return 1

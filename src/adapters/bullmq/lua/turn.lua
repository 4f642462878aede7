-- Give a job its place in the order of its lock, which it keeps until it is over, and say whether it is its turn.
--
-- The order is that in which BullMQ gave the jobs out for the first time: that of its list of active jobs, oldest last. Jobs that were given out
-- before and have no place yet get theirs first, though their processor may be slow, stopped or dead: their locks are asked for.
--
-- KEYS[1] order
-- KEYS[2] active
-- KEYS[3] wait
-- KEYS[4] completed
-- KEYS[5] failed
-- KEYS[6] waiting-children
-- KEYS[7] delayed
-- ARGV[1] prefix of the keys of jobs
-- ARGV[2] id
-- ARGV[3] lock
-- ARGV[4] limit, how many may run at once
-- ARGV[5] 1: those before it are known, and follow
-- ARGV[6…] of each of them its id and its lock, oldest first; an empty one: it needs none
--
-- Returns {'ask', again, id…}: these have no place and may be before it; the first `again` of them were given out more than once, as were
-- those whose worker died. {'turn'}: it is its turn. {'later', ahead}: it is not; so many are before it.

--- @include _order

local prefix, own, lock = ARGV[1], ARGV[2], ARGV[3]

local function hasPlace(id)
  local of = redis.call('HGET', prefix .. id, 'holdfast')
  if not of then return false end
  return of == '' or redis.call('ZSCORE', orderOf(prefix, of), id) ~= false
end

local function starts(id)
  return tonumber(redis.call('HGET', prefix .. id, 'ats') or 0)
end

local function append(id, of)
  if redis.call('EXISTS', prefix .. id) == 0 then return end
  redis.call('HSET', prefix .. id, 'holdfast', of)
  if of == '' then return end
  local last = redis.call('ZRANGE', orderOf(prefix, of), -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', orderOf(prefix, of), tonumber(last or 0) + 1, id)
end

-- Oldest first. One that its worker has lost is before all others: it goes back to the end of the list from which jobs are taken.
local function without()
  local again, once = {}, {}
  for at = 1, 1000 do
    local id = redis.call('LINDEX', KEYS[3], -at)
    if not id or starts(id) == 0 then break end
    if id ~= own and not hasPlace(id) then again[#again + 1] = id end
  end
  local active = redis.call('LRANGE', KEYS[2], 0, -1)
  local passed = starts(own) > 1
  for at = #active, 1, -1 do
    local id = active[at]
    if id == own then
      passed = true
    elseif not hasPlace(id) then
      if starts(id) > 1 then
        again[#again + 1] = id
      elseif not passed then
        once[#once + 1] = id
      end
    end
  end
  return again, once
end

if redis.call('HGET', prefix .. own, 'holdfast') ~= lock or not redis.call('ZSCORE', KEYS[1], own) then
  if ARGV[5] ~= '1' then
    local again, once = without()
    if #again + #once > 0 then
      local asked = {'ask', #again}
      for _, id in ipairs(again) do asked[#asked + 1] = id end
      for _, id in ipairs(once) do asked[#asked + 1] = id end
      return asked
    end
  end
  for at = 6, #ARGV, 2 do
    if not hasPlace(ARGV[at]) then append(ARGV[at], ARGV[at + 1]) end
  end
  append(own, lock)
end

local isTurn = front(KEYS[1], prefix, lock, tonumber(ARGV[4]), own, KEYS[4], KEYS[5], KEYS[6], KEYS[7])
if isTurn then
  redis.call('HDEL', prefix .. own, 'holdfast:parked')
  return {'turn'}
end
-- One that was removed meanwhile is no job any more, and must not become one.
local rank = redis.call('ZRANK', KEYS[1], own)
if rank then redis.call('HSET', prefix .. own, 'holdfast:parked', '1') end
return {'later', rank or 1}

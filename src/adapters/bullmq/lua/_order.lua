-- What both scripts know of the orders. An order is a sorted set of the ids of jobs, by their places, and each job says in its own hash which
-- order it is in: so that is gone with the job. Whether a job has ended is asked of BullMQ, and noted nowhere else: what is killed, fails for good,
-- or is removed by hand, blocks no other job.

local function orderOf(prefix, lock)
  return prefix .. 'holdfast:order:' .. lock
end

-- Over, or not of this order any more: its key was changed, or its id was given again after the jobs were obliterated.
local function isOver(prefix, lock, id, completed, failed)
  return redis.call('HGET', prefix .. id, 'holdfast') ~= lock
    or redis.call('ZSCORE', completed, id)
    or redis.call('ZSCORE', failed, id)
end

-- Takes away what is over at the front, up to `limit` jobs that are not, or up to the job `own`. Returns whether that one was reached, and those
-- that may run and were delayed only because it was not their turn.
local function front(order, prefix, lock, limit, own, completed, failed, parents, delayed)
  local at, ahead, wake = 0, 0, {}
  while ahead < limit do
    local id = redis.call('ZRANGE', order, at, at)[1]
    if not id then return false, wake end
    if id == own then return true, wake end
    if isOver(prefix, lock, id, completed, failed) then
      redis.call('ZREM', order, id)
    else
      at = at + 1
      -- One that waits for its children lets others pass: they may be its children.
      if not redis.call('ZSCORE', parents, id) then
        ahead = ahead + 1
        if redis.call('HGET', prefix .. id, 'holdfast:parked') and redis.call('ZSCORE', delayed, id) then
          wake[#wake + 1] = id
        end
      end
    end
  end
  return false, wake
end

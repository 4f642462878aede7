-- Give back to BullMQ's rate limiter what a job has used up that was taken and not begun.
--
-- KEYS[1] limiter, a counter that ends with its period
-- KEYS[2] meta of the queue
-- ARGV[1] duration of a period in ms, as the worker was set up; empty: that of the queue counts, if it has one
-- ARGV[2] ms since the worker had the job, which is shortly after it was counted
--
-- Returns 1 when given back, 0 when there is no limiter, or the job was counted in a period that is over.

local duration = tonumber(ARGV[1]) or tonumber(redis.call('HGET', KEYS[2], 'duration') or '')
local count = tonumber(redis.call('GET', KEYS[1]) or '')
-- A counter near 2^53 was not counted up to: rateLimit() has set it.
if not duration or not count or count < 1 or count > 4503599627370496 then return 0 end
local rest = redis.call('PTTL', KEYS[1])
if rest <= 0 or duration - rest < tonumber(ARGV[2]) then return 0 end
redis.call('DECR', KEYS[1])
return 1

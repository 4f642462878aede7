-- Takes all locks, or none.
--
-- KEYS[n] the locks
-- ARGV[1] the value
-- ARGV[2] for how long, ms
--
-- Returns how many were taken, and then the server's time in microseconds as a text, if this user may ask for it.

for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then return { 0 } end
end
for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2]) end
local time = redis.pcall('TIME')
if time.err then return { #KEYS } end
return { #KEYS, string.format('%.0f', time[1] * 1000000 + time[2]) }

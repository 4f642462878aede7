-- Takes all locks, or none. One that has the value already was taken by this question, when it came the first time: a client sends again what
-- was not answered.
--
-- KEYS[n] the locks
-- ARGV[1] the value
-- ARGV[2] for how long, ms
-- ARGV[3] if given: others may have the same value, so that it is in the way like any other
--
-- Returns how many were taken, and then the server's time in microseconds as a text, if this user may ask for it.

for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if value and (value ~= ARGV[1] or ARGV[3]) then return { 0 } end
end
for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2]) end
local time = redis.pcall('TIME')
if time.err then return { #KEYS } end
return { #KEYS, string.format('%.0f', time[1] * 1000000 + time[2]) }

-- Lets all locks last for as long as asked, if each has the value; else changes nothing.
--
-- KEYS[n] the locks
-- ARGV[1] the value
-- ARGV[2] for how long, ms
--
-- Returns how many were extended.

for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) ~= ARGV[1] then return 0 end
end
-- SET refuses a time that is not above 0; PEXPIRE would delete the lock.
for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2]) end
return #KEYS

-- Run the commands unless a later fence has been here, and remember the fence. With no commands, only that.
--
-- KEYS[1] mark
-- KEYS[2…] written, the first argument of each command
-- ARGV[1] fence
-- ARGV[2…] commands, each as its name, the number of its further arguments, and those
--
-- Returns {1, reply…} when admitted, {0, mark} when refused.

-- Lua's numbers are doubles, exact only to 2^53: decimals are compared as text, the longer one being greater.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local fence = ARGV[1]
local mark = redis.call('GET', KEYS[1])
if mark and not string.match(mark, '^%d+$') then
  return redis.error_reply('FENCE the mark is not a fence')
end
if mark and less(fence, mark) then return {0, mark} end
if mark ~= fence then redis.call('SET', KEYS[1], fence) end

local replies = {1}
local at = 2
for i = 2, #KEYS do
  local arguments = {}
  for n = 1, tonumber(ARGV[at + 1]) do arguments[n] = ARGV[at + 1 + n] end
  replies[i] = redis.call(ARGV[at], KEYS[i], unpack(arguments))
  at = at + 2 + #arguments
end
return replies

-- Renews leases: each key that is still its claim's lasts at least as long as asked.
--
-- KEYS[n] the locks
-- ARGV[n] four for each lock: the claim's id; its fence, or "" if any will do; for how long, ms; who claims, or "" if that has not changed
--
-- Returns for each lock 1 if it was renewed, 2 if the claim holds it with another fence, 0 if it does not hold it, or an error as a text.

--- @include _value

local answers = {}
for i = 1, #KEYS do
  local at = 4 * i - 4
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' then
    answers[i] = value.err
  else
    local id, fence, since, hold, delay = parse(value)
    if id ~= ARGV[at + 1] then
      answers[i] = 0
    elseif ARGV[at + 2] ~= '' and ARGV[at + 2] ~= fence then
      answers[i] = 2
    else
      local keep = math.max(tonumber(ARGV[at + 3]), redis.call('PTTL', KEYS[i]))
      if ARGV[at + 4] ~= '' then
        redis.call('SET', KEYS[i], table.concat({ 'holdfast', id, fence, since, hold, delay, ARGV[at + 4] }, ':'), 'PX', keep)
      else
        redis.call('PEXPIRE', KEYS[i], keep)
      end
      answers[i] = 1
    end
  end
end
return answers

-- Who grants: a server with a marker says it with every grant and every answer, so that a grant which was told by one that is
-- no longer in charge is not believed on the word of another.

-- How long nothing may be granted here, ms. `asked`: the quarantine that the caller asks for; nil when it asks for none, and
-- then obeys the marker that is there, if any. In a slot that moves, a marker that is not here counts as none.
local function young_at(lock, marker, asked, now)
  if not asked and redis.pcall('EXISTS', marker) ~= 1 then return 0 end
  local young = young_ms(marker, tonumber(asked or 0), now)
  -- Every marker that is made anew has another birth.
  local known = redis.call('HMGET', marker, 'run', 'history', 'born')
  lock.by = '@' .. string.sub(redis.sha1hex((known[1] or '') .. (known[2] or '') .. (known[3] or '')), 1, 12)
  return young
end

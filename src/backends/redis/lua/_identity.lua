-- Who grants: a server with a marker says it with every grant and every answer, so that a grant which was told by one that is
-- no longer in charge is not believed on the word of another.

-- How long nothing may be granted here, ms. `asked`: the quarantine that the caller asks for, ms, and the silence of a replica
-- that it bears, in seconds; nil when it asks for none, and then obeys the marker that is there, if any. In a slot that moves, a
-- marker that is not here counts as none. `lock.cut_off`: nothing may be prolonged here either.
local function young_at(lock, marker, asked, now)
  if not asked and redis.pcall('EXISTS', marker) ~= 1 then return 0 end
  local quarantine, lag = string.match(asked or '0', '^(%d+) ?(%d*)$')
  local young, _, cut_off = young_ms(marker, tonumber(quarantine), now, tonumber(lag))
  -- Every marker that is made anew has another birth.
  local known = redis.call('HMGET', marker, MARKER.run, MARKER.history, MARKER.born)
  lock.by = MARK.identity .. string.sub(redis.sha1hex((known[1] or '') .. (known[2] or '') .. (known[3] or '')), 1, 12)
  lock.cut_off = cut_off
  -- Whoever only lets go may do so. Until the server itself has counted again, nobody is let in.
  return cut_off and math.max(young, 1000) or young
end

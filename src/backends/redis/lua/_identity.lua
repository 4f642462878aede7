-- A server with a marker adds its identity to every grant and every answer, so that a grant by a server which is no longer the
-- primary is not confirmed by an answer of another.

-- How long nothing may be granted here, ms. `asked`: the quarantine that the caller asks for, ms, and the longest silence of a
-- replica that it accepts, in seconds; nil if it asks for none: then it obeys the marker, if there is one. In a slot that is being
-- moved, a marker that is not here counts as none. `lock.cut_off`: nothing may be extended here either.
local function young_at(lock, marker, asked, now)
  if not asked and redis.pcall('EXISTS', marker) ~= 1 then return 0 end
  local quarantine, lag = string.match(asked or '0', '^(%d+) ?(%d*)$')
  local young, _, cut_off = young_ms(marker, tonumber(quarantine), now, tonumber(lag))
  -- Each new marker has another birth.
  local known = redis.call('HMGET', marker, MARKER.run, MARKER.history, MARKER.born)
  lock.by = MARK.identity .. string.sub(redis.sha1hex((known[1] or '') .. (known[2] or '') .. (known[3] or '')), 1, 12)
  lock.cut_off = cut_off
  -- A release is always allowed. Nothing is granted until the server itself has counted its replicas again.
  return cut_off and math.max(young, 1000) or young
end

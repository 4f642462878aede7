-- Who grants: a server under a quarantine says it with every grant and every answer, so that a grant which was told by one that
-- is no longer in charge is not believed on the word of another.

-- The marker changes whenever the server may have forgotten something.
local function identity(marker)
  local known = redis.call('HMGET', marker, 'run', 'history', 'until')
  return '@' .. string.sub(redis.sha1hex((known[1] or '') .. (known[2] or '') .. (known[3] or '')), 1, 12)
end

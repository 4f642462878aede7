-- Renews holders, each with its own answer: one bad lock never affects another.
--
-- KEYS[1..] the locks, one per claim; if the server's id is asked for, its marker after them
-- ARGV[1] the claims' ids in the same order, each followed by a space: one argument is cheaper for the client than hundreds
-- ARGV[2] ttl + lockDelay of all of them, ms
-- ARGV[3] the idle time of the locks' hashes, ms
-- ARGV[4] with a quarantine, the longest silence of a replica that counts, in seconds; otherwise the marker's key
-- ARGV[5] "who" if the server's id is asked for; otherwise "", or absent
-- ARGV[6] if these may no longer be the same leases: the fences with which they were granted, 16 digits each, in the same order and
--         each followed by a space; otherwise "", or absent
-- ARGV[7..] if what the claims' processes say of themselves has changed: that, one each, as it is at the end of their terms
--
-- Returns 1 if all were renewed and none is wanted; otherwise for each claim 1, 2 if it is also wanted, or why not: "gone", with the
-- record of the forced end if there is one; "other" if the claim has another fence; or "!" and an error. The server's id, if asked for,
-- replaces the 1 for all, and follows the claims' answers.

--- @include _replicas

local silence = tonumber(ARGV[4])
if not silence then
  local known = redis.pcall('HGET', ARGV[4], MARKER.lag)
  silence = type(known) == 'string' and tonumber(known)
end
if silence and is_cut_off(redis.call('INFO', 'replication'), silence) then return redis.error_reply(CUT_OFF) end

--- @include _lock
--- @include _mail
--- @include _wanted

local keep, idle = tonumber(ARGV[2]), tonumber(ARGV[3])
local last = now + keep
local stamp = string.format(RECORD.till.format, last)

-- The usual case: the claim is the only one. Renewals only move the end forward.
local function renew_alone(key, state, id, words)
  local from = STATE.width + MARK.alone.length + 1 + #id
  local till = tonumber(string.sub(state, from + RECORD.till.from, from + RECORD.till.to))
  if not till or till <= now then return false end
  if till >= last and not words then return true end
  local head = string.sub(state, STATE.whole)
  if last + idle > (tonumber(string.sub(state, STATE.death)) or 0) then
    -- Half an idle time in reserve, so most renewals need not change the key's own expiry.
    local death = string.format(STATE.death.format, last + idle + math.floor(idle / 2))
    redis.call('PEXPIREAT', key, death)
    head = STATE.text{ last = string.sub(state, STATE.last), death = death }
  end
  local renewed = head .. string.sub(state, STATE.width + 1, from + RECORD.till.from - 1)
    .. (till < last and stamp or string.sub(state, from + RECORD.till.from, from + RECORD.till.to))
    .. string.sub(state, from + RECORD.till.to + 1)
  if words then
    local terms = string.sub(renewed, from + RECORD.terms.from)
    local who_at = string.match(terms, TERMS.pattern{})
    if not who_at then return false end
    renewed = string.sub(renewed, 1, from + RECORD.terms.from + who_at - 2) .. words
  end
  -- Refused by a full server (noeviction): the long way deletes first, and is accepted.
  return type(redis.pcall('HSET', key, FIELD.state, renewed)) == 'number'
end

local function renew(key, id, fence, words)
  local state = redis.call('HGET', key, FIELD.state)
  if state and string.sub(state, STATE.width + 1, STATE.width + MARK.alone.length + 1 + #id) == MARK.alone .. id .. ' '
    and (not fence or string.sub(state, STATE.width + MARK.alone.length + 1 + RECORD.number.from + #id,
      STATE.width + MARK.alone.length + 1 + RECORD.number.to + #id) == fence)
    and renew_alone(key, state, id, words) then
    return 1
  end
  local lock = open(key, id)
  if not lock then return WORD.failed .. WORD.foreign end
  if lock.held and ends(lock.held) > now then
    if fence and tonumber(fence_of(lock.held)) ~= tonumber(fence) then return WORD.other end
    -- After a deletion in the same script, a full server (noeviction) accepts what follows.
    redis.call('HDEL', key, FIELD.none)
    if words then
      local who_at = string.match(lock.held, RECORD.pattern{})
      lock.held = string.sub(lock.held, 1, who_at - 1) .. words
    end
    extend(lock, id, last)
    close(lock, last, idle)
    return is_wanted(lock, id) and 2 or 1
  end
  local fence = redis.call('HGET', key, FIELD.forcedFence .. id)
  return WORD.gone .. (fence and redis.call('HGET', key, FIELD.forced .. fence) or '')
end

local count, who = #KEYS, nil
if ARGV[5] == 'who' then
  -- As the last vote found it: a claim that is renewed here was voted for here.
  who = redis.call('HGET', KEYS[count], MARKER.who) or ''
  count = count - 1
end
local answers, renewed, from = {}, 0, 1
for i = 1, count do
  local till = string.find(ARGV[1], ' ', from, true)
  local fence = ARGV[6] and ARGV[6] ~= '' and string.sub(ARGV[6], (RECORD.number.width + 1) * i - RECORD.number.width, (RECORD.number.width + 1) * i - 1)
  answers[i] = separately(renew, KEYS[i], string.sub(ARGV[1], from, till - 1), fence, ARGV[i + 6])
  if answers[i] == 1 then renewed = renewed + 1 end
  from = till + 1
end
if renewed == count then return who or 1 end
answers[count + 1] = who
return answers

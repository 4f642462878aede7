-- Messages to processes. They are hints: each costs little, and none decides anything.

-- What a message says about a claim, with a proof that its sender knows the claim's whole id. It shows eight characters of the id,
-- so the process finds the claim; a listener learns nothing that it could use.
local function sealed(id, text)
  return string.sub(id, 1, LIMIT.shown) .. text .. MARK.seal .. string.sub(redis.sha1hex(id .. text), 1, LIMIT.seal)
end

local function add(mail, inbox, news)
  local list = mail[inbox] or {}
  mail[inbox] = list
  list[#list + 1] = news
end

-- Sends each process its news, `most` in one message. `tail`: what each message ends with.
local function post(word, mail, most, tail)
  for inbox, news in pairs(mail) do
    for from = 1, #news, most do
      local text = table.concat(news, ',', from, math.min(from + most - 1, #news))
      redis.call('PUBLISH', inbox, word .. text .. (tail or ''))
    end
  end
end

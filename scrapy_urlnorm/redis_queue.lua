-- What a crawler says to the queue and asks of it, as one step.
--
-- KEYS[1]  what waits: a sorted set of requests, the lowest score first
-- KEYS[2]  what is under way: a hash, token -> score, line feed, request
-- KEYS[3]  the crawlers: a sorted set, name -> when it last gave a sign of life (milliseconds)
-- ARGV     name of the crawler, milliseconds after which one counts as dead, token for the next
--          request or '' for none, then the tokens of requests that are done
--
-- Returns a request or nothing. A token begins with the name of its crawler and a colon.

local waiting, under_way, crawlers = KEYS[1], KEYS[2], KEYS[3]
local name, patience, token = ARGV[1], tonumber(ARGV[2]), ARGV[3]

for at = 4, #ARGV do redis.call('HDEL', under_way, ARGV[at]) end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', crawlers, now, name)

local dead = {}
for _, each in ipairs(redis.call('ZRANGEBYSCORE', crawlers, '-inf', '(' .. (now - patience))) do
  dead[each] = true
  redis.call('ZREM', crawlers, each)
end
if next(dead) then
  local entries = redis.call('HGETALL', under_way)
  for at = 1, #entries, 2 do
    if dead[string.match(entries[at], '^[^:]*')] then
      local score, request = string.match(entries[at + 1], '^([^\n]*)\n(.*)$')
      redis.call('ZADD', waiting, score, request)
      redis.call('HDEL', under_way, entries[at])
    end
  end
end

if token == '' then return false end
local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
if not first[1] then return false end
redis.call('ZREM', waiting, first[1])
redis.call('HSET', under_way, token, first[2] .. '\n' .. first[1])
return first[1]

-- What a crawler says to the queue and asks of it, as one step.
--
-- KEYS[1]  what waits: a sorted set of requests, the lowest score first
-- KEYS[2]  what is under way: a hash, token -> score, line feed, request
-- KEYS[3]  the crawlers: a sorted set, name -> when it last gave a sign of life (milliseconds)
-- KEYS[4]  what a crawler keeps back by learned rules: a hash like KEYS[2]
-- ARGV     name of the crawler, milliseconds after which one counts as dead, token for the next
--          request or '' for none, how many tokens follow of requests that are kept back, these,
--          then the tokens of requests that are done
--
-- Returns how many requests of dead crawlers wait again, and a request or nothing. A token begins
-- with the name of its crawler and a colon.

local waiting, under_way, crawlers, kept = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, patience, token = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local last_kept = 4 + tonumber(ARGV[4])

for at = 5, last_kept do
  local entry = redis.call('HGET', under_way, ARGV[at])
  if entry then
    redis.call('HSET', kept, ARGV[at], entry)
    redis.call('HDEL', under_way, ARGV[at])
  end
end
for at = last_kept + 1, #ARGV do
  redis.call('HDEL', under_way, ARGV[at])
  redis.call('HDEL', kept, ARGV[at])
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', crawlers, now, name)

local dead = {}
for _, each in ipairs(redis.call('ZRANGEBYSCORE', crawlers, '-inf', '(' .. (now - patience))) do
  dead[each] = true
  redis.call('ZREM', crawlers, each)
end
local taken_back = 0
if next(dead) then
  for _, held in ipairs({under_way, kept}) do
    local entries = redis.call('HGETALL', held)
    for at = 1, #entries, 2 do
      if dead[string.match(entries[at], '^[^:]*')] then
        local score, request = string.match(entries[at + 1], '^([^\n]*)\n(.*)$')
        redis.call('ZADD', waiting, score, request)
        redis.call('HDEL', held, entries[at])
        taken_back = taken_back + 1
      end
    end
  end
end

if token == '' then return {taken_back} end
local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
if not first[1] then return {taken_back} end
redis.call('ZREM', waiting, first[1])
redis.call('HSET', under_way, token, first[2] .. '\n' .. first[1])
return {taken_back, first[1]}

-- One step of a crawler: what it says to the queue and asks of it. Redis does it whole or not at
-- all, and passes it on to its replicas whole or not at all.
--
-- KEYS[1]  waiting: a sorted set of requests, the lowest score first
-- KEYS[2]  held by crawlers: a hash, token -> score, line feed, request
-- KEYS[3]  withheld by learned rules: a hash like KEYS[2]
-- KEYS[4]  crawlers: a sorted set, name -> when it last gave a sign of life (milliseconds)
-- KEYS[5]  steps: a hash, name -> number of the last step of this crawler that changed something
-- ARGV     name of the crawler, number of this step, milliseconds after which a crawler counts as
--          dead, token for the next request or '' for none; then the changes, each an operation, a
--          token, and an entry like those of KEYS[2] or ''
--
-- Returns the number of the step before this one. If that is not this number less one, nothing was
-- done: this step was done already (equal numbers), or Redis has lost steps (a lower one). After
-- it how many requests of dead crawlers wait again, how many wait, how many are held, and an entry
-- or nothing. A token begins with the name of its crawler and a colon.

local waiting, held, withheld, crawlers, steps = unpack(KEYS)
local name, number, patience, token = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local function wait(entry)
  local score, request = string.match(entry, '^([^\n]*)\n(.*)$')
  redis.call('ZADD', waiting, score, request)
end

local change = {
  wait = function(_, entry) wait(entry) end,
  hold = function(each, entry) redis.call('HSET', held, each, entry) end,
  -- What another step took from the queue, which Redis has forgotten.
  take = function(each, entry)
    redis.call('ZREM', waiting, (string.match(entry, '\n(.*)$')))
    redis.call('HSET', held, each, entry)
  end,
  free = function(each)
    local entry = redis.call('HGET', held, each)
    if entry then
      wait(entry)
      redis.call('HDEL', held, each)
    end
  end,
  keep = function(each)
    local entry = redis.call('HGET', held, each)
    if entry then
      redis.call('HSET', withheld, each, entry)
      redis.call('HDEL', held, each)
    end
  end,
  done = function(each)
    redis.call('HDEL', held, each)
    redis.call('HDEL', withheld, each)
  end,
}

local function take_back_from_the_dead(now)
  local dead, count = {}, 0
  for _, each in ipairs(redis.call('ZRANGEBYSCORE', crawlers, '-inf', '(' .. (now - patience))) do
    dead[each] = true
    redis.call('ZREM', crawlers, each)
  end
  if not next(dead) then return 0 end
  for _, table in ipairs({held, withheld}) do
    local entries = redis.call('HGETALL', table)
    for at = 1, #entries, 2 do
      if dead[string.match(entries[at], '^[^:]*')] then
        wait(entries[at + 1])
        redis.call('HDEL', table, entries[at])
        count = count + 1
      end
    end
  end
  return count
end

local function next_entry()
  local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
  if not first[1] then return false end
  local entry = first[2] .. '\n' .. first[1]
  redis.call('ZREM', waiting, first[1])
  redis.call('HSET', held, token, entry)
  return entry
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = tonumber(redis.call('HGET', steps, name) or 0)
local taken_back, entry = 0, false
if last == number - 1 then
  for at = 5, #ARGV, 3 do change[ARGV[at]](ARGV[at + 1], ARGV[at + 2]) end
  redis.call('ZADD', crawlers, now, name)
  taken_back = take_back_from_the_dead(now)
  if token ~= '' then entry = next_entry() end
  if entry or #ARGV > 4 then redis.call('HSET', steps, name, number) end
elseif last == number then
  entry = redis.call('HGET', held, token)
end
return {last, taken_back, redis.call('ZCARD', waiting), redis.call('HLEN', held), entry}

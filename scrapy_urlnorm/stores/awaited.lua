-- One operation on what is known of a key whose page is awaited (see table.lua): get, put, change, drop.
-- All of a group is one hash: it grows with the queues of the crawlers, not with the keys.
-- ARGV[4]  the key
-- ARGV[5]  for put, what is known: requests under way, callback and URL, with a blank between; for
--          change, how many requests more are under way
--
-- get and change return what is known, or nil.

local _, _, expires = periods(group)
local name, entry = group .. ':awaited', ARGV[4]

local function put(value)
  redis.call('HSET', name, entry, value)
  if expires then redis.call('EXPIREAT', name, expires) end
end

if operation == 'put' then
  put(ARGV[5])
elseif operation == 'drop' then
  redis.call('HDEL', name, entry)
elseif operation == 'get' then
  return redis.call('HGET', name, entry)
elseif operation == 'change' then
  local value = redis.call('HGET', name, entry)
  if value then
    local count, rest = string.match(value, '^(%d+)( .*)$')
    value = math.max(0, tonumber(count) + tonumber(ARGV[5])) .. rest
    put(value)
  end
  return value
end
return nil

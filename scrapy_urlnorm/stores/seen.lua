-- One operation on one key of a group: a linear hash table of sets of integers.
--
-- KEYS[1]  the group: a hash with the fields keys and buckets. It also makes the names of the
--          buckets, which lie in the same slot of a cluster because of the {..} in them.
-- ARGV     operation, member (a signed 64-bit integer), seconds to live or 0
--
-- Returns -1 when the group is not there (Redis has lost it), else a number.
--
-- A set of up to set-max-intset-entries (512) integers is a sorted array in Redis, eight bytes
-- each. A group begins with one bucket and splits one bucket whenever it has LOAD keys for each,
-- so that a bucket has between LOAD / 2 and 2 * LOAD, whatever the number of keys.

local LOAD = 128
local group, operation, member, ttl = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

-- Bits of a member that say where it belongs. Lua's numbers are exact up to 2^53 only: without
-- the low bits, a member always gives the same.
local function spread(of)
  return math.floor(tonumber(of) / 4096)
end

local function bucket_of(table_name, buckets)
  local size = 1
  while size < buckets do size = size * 2 end
  local at = spread(member) % size
  if at >= buckets then at = at - size / 2 end
  return table_name .. ':' .. at
end

local function buckets_of(table_name)
  return tonumber(redis.call('HGET', table_name, 'buckets') or 0)
end

local function has(table_name)
  local buckets = buckets_of(table_name)
  return buckets > 0 and redis.call('SISMEMBER', bucket_of(table_name, buckets), member) == 1
end

local function forget(table_name)
  local buckets = buckets_of(table_name)
  if buckets == 0 or redis.call('SREM', bucket_of(table_name, buckets), member) == 0 then
    return 0
  end
  redis.call('HINCRBY', table_name, 'keys', -1)
  return 1
end

local function split(table_name, buckets, expires)
  local size = 1
  while size * 2 <= buckets do size = size * 2 end
  local from = table_name .. ':' .. (buckets - size)
  local to = table_name .. ':' .. buckets
  local moving = {}
  for _, each in ipairs(redis.call('SMEMBERS', from)) do
    if spread(each) % (size * 2) == buckets then moving[#moving + 1] = each end
  end
  if #moving > 0 then
    redis.call('SADD', to, unpack(moving))
    redis.call('SREM', from, unpack(moving))
    if expires then redis.call('EXPIREAT', to, expires) end
  end
  redis.call('HSET', table_name, 'buckets', buckets + 1)
end

local function add(table_name, expires)
  local buckets = math.max(buckets_of(table_name), 1)
  local bucket = bucket_of(table_name, buckets)
  if redis.call('SADD', bucket, member) == 0 then return 0 end
  local keys = redis.call('HINCRBY', table_name, 'keys', 1)
  if expires then
    redis.call('EXPIREAT', bucket, expires)
    redis.call('EXPIREAT', table_name, expires)
    redis.call('HSETNX', table_name, 'buckets', 1)
  end
  if keys > LOAD * buckets then split(table_name, buckets, expires) end
  return 1
end

if redis.call('EXISTS', group) == 0 then return -1 end

-- With a time to live there is a table for every period of that length: the current one, and
-- the one before, in which nothing is added any more.
local current, before, expires = group, nil, nil
if ttl > 0 then
  local period = math.floor(tonumber(redis.call('TIME')[1]) / ttl)
  current, before = group .. ':' .. period, group .. ':' .. (period - 1)
  expires = (period + 2) * ttl
end

if operation == 'add' then
  if before and has(before) then return 0 end
  return add(current, expires)
elseif operation == 'has' then
  return (has(current) or before and has(before)) and 1 or 0
elseif operation == 'forget' then
  local was_in = forget(current)
  if before then was_in = math.max(was_in, forget(before)) end
  return was_in
end
local count = tonumber(redis.call('HGET', current, 'keys') or 0)
if before then count = count + tonumber(redis.call('HGET', before, 'keys') or 0) end
return count

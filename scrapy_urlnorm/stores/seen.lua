-- One operation on one key of a group (see table.lua): add, has, forget; or len, of the group.
-- The entries of the table are the keys, each bucket is a set.
-- ARGV[3]  the key

local entry = ARGV[3]
local current, before, expires = periods(group)

local function has(name)
  local buckets = buckets_of(name)
  return buckets > 0 and redis.call('SISMEMBER', bucket_of(entry, name, buckets), entry) == 1
end

local function forget(name)
  local buckets = buckets_of(name)
  if buckets == 0 or redis.call('SREM', bucket_of(entry, name, buckets), entry) == 0 then
    return 0
  end
  redis.call('HINCRBY', name, 'keys', -1)
  return 1
end

local function move(from, to, belongs)
  local moving = {}
  for _, each in ipairs(redis.call('SMEMBERS', from)) do
    if belongs(each) then moving[#moving + 1] = each end
  end
  if #moving > 0 then
    redis.call('SADD', to, unpack(moving))
    redis.call('SREM', from, unpack(moving))
  end
end

if operation == 'add' then
  if before and has(before) then return 0 end
  local bucket = bucket_of(entry, current, math.max(buckets_of(current), 1))
  if redis.call('SADD', bucket, entry) == 0 then return 0 end
  grow(current, bucket, expires, move)
  return 1
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

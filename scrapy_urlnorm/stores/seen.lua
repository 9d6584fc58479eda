-- One operation on one key of a group (see table.lua): add, claim, has, forget; or len, of the group.
-- The entries of the table are the keys, each bucket is a set.
-- ARGV[4]  the key
-- ARGV[5]  for claim, what is known of the key from now on if it is new (see awaited.lua)
--
-- Each new bucket gets the mark as one more entry. If the mark is missing, Redis has lost the bucket
-- (or thrown it away when memory was short): then the script returns -1 too.

local entry = ARGV[4]
local current, before, expires = periods(group)
local is_lost = false

local function is_whole(bucket)
  local whole = redis.call('SISMEMBER', bucket, mark) == 1
  is_lost = is_lost or not whole
  return whole
end

-- The group has the names of the tables of the last two periods in which keys were added.
local function buckets_left(name)
  local buckets = buckets_of(name)
  if buckets == 0 then
    local made = redis.call('HMGET', group, 'last', 'previous')
    is_lost = is_lost or made[1] == name or made[2] == name
  end
  return buckets
end

local function make(name)
  redis.call('HSET', name, 'buckets', 1)
  redis.call('SADD', name .. ':0', mark)
  redis.call('HSET', group, 'previous', redis.call('HGET', group, 'last') or '', 'last', name)
end

local function has(name)
  local buckets = buckets_left(name)
  if buckets == 0 then return false end
  local bucket = bucket_of(entry, name, buckets)
  if redis.call('SISMEMBER', bucket, entry) == 1 then return true end
  is_whole(bucket)
  return false
end

local function forget(name)
  local buckets = buckets_left(name)
  if buckets == 0 then return 0 end
  local bucket = bucket_of(entry, name, buckets)
  if redis.call('SREM', bucket, entry) == 0 then
    is_whole(bucket)
    return 0
  end
  redis.call('HINCRBY', name, 'keys', -1)
  return 1
end

local function move(from, to, belongs)
  if not is_whole(from) then return false end
  local moving = {}
  for _, each in ipairs(redis.call('SMEMBERS', from)) do
    if each ~= mark and belongs(each) then moving[#moving + 1] = each end
  end
  redis.call('SADD', to, mark)
  if #moving > 0 then
    redis.call('SADD', to, unpack(moving))
    redis.call('SREM', from, unpack(moving))
  end
  return true
end

local function add()
  local buckets = buckets_left(current)
  if is_lost then return 0 end
  if buckets == 0 then
    make(current)
    buckets = 1
  end
  local bucket = bucket_of(entry, current, buckets)
  if redis.call('SADD', bucket, entry) == 0 then return 0 end
  if is_whole(bucket) then
    grow(current, buckets, bucket, expires, move)
  else
    redis.call('SREM', bucket, entry)
  end
  return 1
end

local function count(name)
  return buckets_left(name) > 0 and tonumber(redis.call('HGET', name, 'keys') or 0) or 0
end

local answer
if operation == 'add' or operation == 'claim' then
  answer = before and has(before) and 0 or add()
  if operation == 'claim' and answer == 1 and not is_lost then
    redis.call('HSET', group .. ':awaited', entry, ARGV[5])
    if expires then redis.call('EXPIREAT', group .. ':awaited', expires) end
  end
elseif operation == 'has' then
  answer = (has(current) or before and has(before)) and 1 or 0
elseif operation == 'forget' then
  answer = forget(current)
  if before then answer = math.max(answer, forget(before)) end
else
  answer = count(current) + (before and count(before) or 0)
end
return is_lost and LOST or answer

-- One operation on the witnesses of a group (see table.lua): put, get, drop. The entries of the
-- table are learned keys, each bucket is a hash from learned keys to values.
-- ARGV[4]  the learned key; for drop, more keys follow
-- ARGV[5]  for put, the value
--
-- get returns the value, or nil when there is none.

local current, before, expires = periods(group .. ':witnesses')

local function bucket(name, entry)
  return bucket_of(entry, name, math.max(buckets_of(name), 1))
end

local function move(from, to, belongs)
  local moving, gone = {}, {}
  local all = redis.call('HGETALL', from)
  for at = 1, #all, 2 do
    if belongs(all[at]) then
      gone[#gone + 1] = all[at]
      moving[#moving + 1] = all[at]
      moving[#moving + 1] = all[at + 1]
    end
  end
  if #gone > 0 then
    redis.call('HSET', to, unpack(moving))
    redis.call('HDEL', from, unpack(gone))
  end
  return true
end

local function drop(name)
  local dropped = 0
  for at = 4, #ARGV do
    dropped = dropped + redis.call('HDEL', bucket(name, ARGV[at]), ARGV[at])
  end
  if dropped > 0 then redis.call('HINCRBY', name, 'keys', -dropped) end
end

if operation == 'put' then
  local place = bucket(current, ARGV[4])
  if redis.call('HSET', place, ARGV[4], ARGV[5]) == 1 then
    redis.call('HSETNX', current, 'buckets', 1)
    grow(current, buckets_of(current), place, expires, move)
  end
elseif operation == 'get' then
  return redis.call('HGET', bucket(current, ARGV[4]), ARGV[4])
    or before and redis.call('HGET', bucket(before, ARGV[4]), ARGV[4])
elseif operation == 'drop' then
  drop(current)
  if before then drop(before) end
end
return nil

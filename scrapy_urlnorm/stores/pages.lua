-- One operation on the pages of a group (see table.lua): put or get. The entries of the table
-- are cluster keys, each bucket is a hash from cluster keys to values.
-- ARGV[4]  the cluster key
-- ARGV[5]  for put, the value
--
-- get returns the value, or nil when there is none.

local current, before, expires = periods(group .. ':pages')

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

if operation == 'put' then
  local place = bucket(current, ARGV[4])
  if redis.call('HSET', place, ARGV[4], ARGV[5]) == 1 then
    redis.call('HSETNX', current, 'buckets', 1)
    grow(current, buckets_of(current), place, expires, move)
  end
elseif operation == 'get' then
  return redis.call('HGET', bucket(current, ARGV[4]), ARGV[4])
    or before and redis.call('HGET', bucket(before, ARGV[4]), ARGV[4])
end
return nil

-- The beginning of every script on a group: a linear hash table of small Redis values, which Redis
-- packs. Its entries are signed 64-bit integers, written in decimal.
--
-- KEYS[1]  the group: a hash with the fields mark, keys and buckets. The names of its buckets begin
--          with its name, so that they lie in the same slot of a cluster because of the {..} in it.
-- ARGV     operation, mark, seconds to live or 0, then the arguments of the operation
--
-- The mark is an integer that no other group has, of this store or another.
--
-- Returns -1 when the group is gone, or has another mark: Redis has lost it.
--
-- A table begins with one bucket and splits one bucket whenever it has LOAD entries for each, so
-- that a bucket has between LOAD / 2 and 2 * LOAD, whatever the number of entries. Redis packs a
-- set of up to set-max-intset-entries (512) integers, eight bytes each, and a hash of up to
-- hash-max-listpack-entries (512) short values.

local LOAD = 128
local LOST = -1
local group, operation, mark, ttl = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

local found = redis.call('HMGET', group, 'buckets', 'mark')
if not found[1] or found[2] ~= mark then return LOST end

-- The bits of an entry that choose its bucket. Lua's numbers are exact up to 2^53 only: without
-- its low bits an entry always gives the same number.
local function spread(entry)
  return math.floor(tonumber(entry) / 4096)
end

local function bucket_of(entry, name, buckets)
  local size = 1
  while size < buckets do size = size * 2 end
  local at = spread(entry) % size
  if at >= buckets then at = at - size / 2 end
  return name .. ':' .. at
end

local function buckets_of(name)
  return tonumber(redis.call('HGET', name, 'buckets') or 0)
end

-- With a time to live there is a table for every period of that length: the current one, and the
-- one before, in which nothing is added any more. Returns both names, and when the current one
-- expires.
local function periods(name)
  if ttl == 0 then return name, nil, nil end
  local period = math.floor(tonumber(redis.call('TIME')[1]) / ttl)
  return name .. ':' .. period, name .. ':' .. (period - 1), (period + 2) * ttl
end

-- Count one entry more, which is in *bucket* already. *buckets* is the number of buckets. When they
-- are full, one is split: move(from, to, belongs) moves the entries that belong to the new one. It
-- returns false if it could not.
local function grow(name, buckets, bucket, expires, move)
  local entries = redis.call('HINCRBY', name, 'keys', 1)
  if expires then
    redis.call('EXPIREAT', bucket, expires)
    redis.call('EXPIREAT', name, expires)
  end
  if entries <= LOAD * buckets then return end
  local size = 1
  while size * 2 <= buckets do size = size * 2 end
  local to = name .. ':' .. buckets
  local function belongs(entry) return spread(entry) % (size * 2) == buckets end
  if not move(name .. ':' .. (buckets - size), to, belongs) then return end
  if expires then redis.call('EXPIREAT', to, expires) end
  redis.call('HSET', name, 'buckets', buckets + 1)
end

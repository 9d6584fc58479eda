-- Make a group of a new store, unless it is there (see table.lua).
--
-- KEYS[1]  the group
-- ARGV     its mark, seconds to live or 0
--
-- Returns whether the group is the one with this mark.

local group, mark, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])

if redis.call('EXISTS', group) == 0 then
  redis.call('HSET', group, 'buckets', 1, 'mark', mark)
  if ttl == 0 then redis.call('SADD', group .. ':0', mark) end
end
return redis.call('HGET', group, 'mark') == mark and 1 or 0

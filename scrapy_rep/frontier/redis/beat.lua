-- Needs: common, places, arriving, returning
-- A worker lives; and of one that gave no sign of life, everything is there for others.
--
-- ARGV: worker, for how long it is taken to live, whether to look for one that does not.
-- Returns the time, how many requests came back, and whether the worker itself was taken
-- for dead, or is new.
local workers = prefix .. ':workers'
begin()
local is_new = call('ZADD', workers, now + ARGV[2], ARGV[1])
local dead = ARGV[3] == '1' and call('ZRANGEBYSCORE', workers, '-inf', now, 'LIMIT', 0, 1)[1]
return { now, dead and retire(dead, true) or 0, is_new }

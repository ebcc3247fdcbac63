-- Needs: common, places, arriving, returning
-- Renew the lease of a worker. If another worker's lease has expired, return all it has to the
-- queue.
--
-- ARGV: worker, duration of its lease, whether to look for an expired lease. Returns the time,
-- how many requests returned to the queue, 1 if the worker was not registered: it is new, or
-- its lease had expired; and 1 if the requests were counted again.
local workers = prefix .. ':workers'
begin()
local is_new = call('ZADD', workers, now + ARGV[2], ARGV[1])
local dead = ARGV[3] == '1' and call('ZRANGEBYSCORE', workers, '-inf', now, 'LIMIT', 0, 1)[1]
return { now, dead and retire(dead, FETCHED) or 0, is_new, call('DEL', prefix .. ':recounted') }

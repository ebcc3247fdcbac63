-- Needs: common
-- Take the only place at a host, for a request that did not come from a queue.
--
-- ARGV: worker, deadline, number, host. Returns whether the call is refused, the time, and 1
-- if the worker has the place now, else 0.
local worker, number, host = ARGV[1], ARGV[3], ARGV[4]
if is_refused(worker, ARGV[2]) then return { 1, now } end
begin()
local key = prefix .. ':host:' .. host
local state = call('HMGET', key, 'out', 'free', 'known')
if (tonumber(state[1]) or 0) > 0 or (tonumber(state[2]) or 0) > now then
    -- The worker asks again soon. Until then no queue may take the place, or the request might
    -- never get it.
    call('HSET', key, 'asked', now + PATIENCE)
    return { 0, now, 0 }
end
call('HDEL', key, 'asked')
call('HSET', prefix .. ':leases:' .. worker, '@' .. number, host)
call('HSET', key, 'out', 1, 'free', now)
-- The key must not expire while a request is in flight.
if not state[3] then call('PERSIST', key) end
return { 0, now, 1 }

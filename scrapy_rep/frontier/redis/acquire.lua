-- Needs: common
-- Take the only place at a host, for a request that no queue has handed out.
--
-- ARGV: worker, deadline, number, host. Returns whether it is refused, the time, and 1 where
-- the place is taken, else 0.
local worker, number, host = ARGV[1], ARGV[3], ARGV[4]
if is_refused(worker, ARGV[2]) then return { 1, now } end
begin()
local key = prefix .. ':host:' .. host
local state = call('HMGET', key, 'out', 'free', 'known')
if (tonumber(state[1]) or 0) > 0 or (tonumber(state[2]) or 0) > now then
    -- It asks again soon. Until then no queue takes the place, or it might never be free.
    call('HSET', key, 'asked', now + PATIENCE)
    return { 0, now, 0 }
end
call('HDEL', key, 'asked')
call('HSET', prefix .. ':leases:' .. worker, '@' .. number, host)
call('HSET', key, 'out', 1, 'free', now)
-- Not to be forgotten while a request is under way.
if not state[3] then call('PERSIST', key) end
return { 0, now, 1 }

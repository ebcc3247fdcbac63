-- Needs: common, places
-- Hand out a request of a queue, whatever its host is ready for: to be refused.
--
-- ARGV: worker, deadline, queue. Returns whether it is refused, the time, and number, request
-- and how many are left, or nothing.
local worker, queue = ARGV[1], ARGV[3]
if is_refused(worker, ARGV[2]) then return { 1, now } end
begin()
local item = call('ZPOPMIN', key_of(queue))
if not item[1] then return { 0, now } end
local number = string.sub(item[1], 1, 14)
local lease = cmsgpack.pack({ queue, item[2], item[1] })
call('HSET', prefix .. ':leases:' .. worker, '=' .. number, lease)
if is_empty(queue) then
    call('ZREM', prefix .. ':unknown', queue)
    call('ZREM', prefix .. ':ready', queue)
    call('SREM', prefix .. ':learning:' .. worker, queue)
end
return { 0, now, number, string.sub(item[1], 15), call('ZCARD', key_of(queue)) }

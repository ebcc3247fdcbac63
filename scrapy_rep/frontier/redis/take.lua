-- Needs: common, places
-- Hand out a request of a queue even if its host is not ready, because the worker will deny it.
--
-- ARGV: worker, deadline, queue. Returns whether the call is refused, and the time; and if the
-- queue is not empty, the number, the request, and how many requests are left.
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

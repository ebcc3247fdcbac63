-- Needs: common, places
-- Hand out requests of a queue even if its host is not ready, because the worker refuses them.
--
-- ARGV: worker, deadline, queue, how many. Returns whether the call is refused, and the time; the
-- requests after their numbers, and how many are left.
local worker, queue = ARGV[1], ARGV[3]
if is_refused(worker, ARGV[2]) then return { 1, now } end
begin()
local found = call('ZPOPMIN', key_of(queue), ARGV[4])
local items = {}
for index = 1, #found, 2 do
    local item = found[index]
    local lease = cmsgpack.pack({ queue, found[index + 1], item })
    call('HSET', prefix .. ':leases:' .. worker, '=' .. string.sub(item, 1, 14), lease)
    table.insert(items, item)
end
if is_empty(queue) then
    call('ZREM', prefix .. ':unknown', queue)
    call('ZREM', prefix .. ':ready', queue)
    call('SREM', prefix .. ':learning:' .. worker, queue)
end
return { 0, now, items, call('ZCARD', key_of(queue)) }

-- Needs: common, places, arriving, returning
-- After a worker has missed an answer, return to the queue what it does not know that it has.
--
-- ARGV: worker, deadline, the fields of the leases that it knows, and the queues whose
-- robots.txt it fetches, both as JSON. Returns whether the call is refused, and the time.
local worker = ARGV[1]
local leases, learning = prefix .. ':leases:' .. worker, prefix .. ':learning:' .. worker
local fields, queues = {}, {}
if is_refused(worker, ARGV[2]) then return { 1, now } end
for _, field in ipairs(cjson.decode(ARGV[3])) do fields[field] = true end
for _, queue in ipairs(cjson.decode(ARGV[4])) do queues[queue] = true end
begin()

local all = call('HGETALL', leases)
for index = 1, #all, 2 do
    local field, value = all[index], all[index + 1]
    if not fields[field] then
        if string.sub(field, 1, 1) == '=' then
            put_back(value)
            call('HDEL', leases, field)
        else
            leave(worker, string.sub(field, 2), value, FETCHED, 0, 0)
        end
    end
end
for _, queue in ipairs(call('SMEMBERS', learning)) do
    if not queues[queue] then
        call('SREM', learning, queue)
        forget_learning(queue)
    end
end
return { 0, now }

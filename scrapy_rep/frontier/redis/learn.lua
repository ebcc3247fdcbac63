-- Needs: common, places
-- Give a worker queues whose robots.txt it must fetch.
--
-- ARGV: worker, deadline, how many queues to return at most, how many ready queues are enough
-- to return none, 1 if the crawl does not obey robots.txt. Returns whether the call is refused,
-- the time, and a list of queues, each with the delay of its host and one request.
local worker, quota, enough = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local ready, unknown = prefix .. ':ready', prefix .. ':unknown'
if is_refused(worker, ARGV[2]) then return { 1, now } end
if call('ZCOUNT', ready, '-inf', now) >= enough then return { 0, now, {} } end
begin()

local found = {}
for _, queue in ipairs(call('ZRANGEBYSCORE', unknown, '-inf', now, 'LIMIT', 0, quota)) do
    local key = prefix .. ':host:' .. host_of(queue)
    local state = call('HMGET', key, 'delay', 'k ' .. queue)
    local is_known = ARGV[5] == '1'
        or is_exempt(queue)
        or (tonumber(state[2]) or 0) > now
    if is_empty(queue) then
        call('ZREM', unknown, queue)
    elseif is_known then
        call('ZREM', unknown, queue)
        call('ZADD', ready, now, queue)
    else
        call('ZADD', unknown, now + RESCUE, queue)
        call('SADD', prefix .. ':learning:' .. worker, queue)
                local request = call('ZRANGE', key_of(queue), 0, 0)[1]
        table.insert(found, { queue, tonumber(state[1]) or 0, request })
    end
end
return { 0, now, found }

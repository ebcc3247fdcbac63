-- Functions for requests that return to their queue.

-- Put a request back into its queue, before those that were pushed later. Returns the queue.
local function put_back(lease)
    local item = cmsgpack.unpack(lease)
    call('ZADD', key_of(item[1]), item[2], item[3])
    arrive(item[1])
    return item[1]
end

-- Let any worker fetch the robots.txt of a queue.
local function forget_learning(queue)
    if is_empty(queue) then
        call('ZREM', prefix .. ':unknown', queue)
    else
        call('ZADD', prefix .. ':unknown', 'XX', now, queue)
    end
end

-- Return all that a worker has to the queue. If *fetched*, its hosts count as having got a
-- request. Returns the number of its requests.
local function retire(worker, fetched)
    local key = prefix .. ':leases:' .. worker
    local leases, count = call('HGETALL', key), 0
    for index = 1, #leases, 2 do
        local kind, number = string.sub(leases[index], 1, 1), string.sub(leases[index], 2)
        if kind == '=' then
            put_back(leases[index + 1])
            count = count + 1
        else
            leave(worker, number, leases[index + 1], fetched, 0, 0)
        end
    end
    for _, queue in ipairs(call('SMEMBERS', prefix .. ':learning:' .. worker)) do
        forget_learning(queue)
    end
    call('DEL', key, prefix .. ':learning:' .. worker)
    call('ZREM', prefix .. ':workers', worker)
    return count
end

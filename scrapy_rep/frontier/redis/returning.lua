-- Requests that come back.

-- Put a request back where it came from, in front of those that came after it.
local function put_back(lease)
    local item = cmsgpack.unpack(lease)
    call('ZADD', key_of(item[1]), item[2], item[3])
    arrive(item[1])
end

-- The robots.txt of a queue is to be got by any worker.
local function forget_learning(queue)
    if is_empty(queue) then
        call('ZREM', prefix .. ':unknown', queue)
    else
        call('ZADD', prefix .. ':unknown', 'XX', now, queue)
    end
end

-- Everything that a worker has is there for others. Returns how many requests.
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

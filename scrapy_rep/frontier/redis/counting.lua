-- Functions that count the requests that are not done.
local NUMBER, ENDED = prefix .. ':number', prefix .. ':ended'

-- Count the requests again, for a new queue, or because a counter was lost or garbled. The
-- numbers of later requests continue from the clock, after all earlier ones.
local function recount()
    local count = 0
    for _, name in ipairs({ ':ready', ':unknown' }) do
        for _, queue in ipairs(call('ZRANGE', prefix .. name, 0, -1)) do
            count = count + call('ZCARD', key_of(queue))
        end
    end
    for _, worker in ipairs(call('ZRANGE', prefix .. ':workers', 0, -1)) do
        for _, field in ipairs(call('HKEYS', prefix .. ':leases:' .. worker)) do
            if string.sub(field, 1, 1) == '=' then count = count + 1 end
        end
    end
    call('DEL', NUMBER, ENDED)
    call('SET', NUMBER, now * 1000)
    call('SET', ENDED, now * 1000 - count)
    if count > 0 then call('SET', prefix .. ':recounted', 1) end
    return count
end

-- Add to a counter. Returns the result; nil if the counter was lost or garbled.
local function add(key, count)
    local found = redis.pcall('INCRBY', key, count)
    if type(found) == 'number' then return found > count and found or nil end
    if string.find(found.err, 'OOM', 1, true) then call('INCRBY', key, count) end -- Fails again.
end

-- Return the number of the next request.
local function next_number()
    local found = add(NUMBER, 1)
    if not found then
        recount()
        found = add(NUMBER, 1)
    end
    return found
end

-- Note that requests are done, which no worker has any more.
local function note_ended(count)
    if count > 0 and not add(ENDED, count) then recount() end
end

-- Return how many requests are not done.
local function count_all()
    local number = tonumber(redis.pcall('GET', NUMBER))
    local ended = tonumber(redis.pcall('GET', ENDED))
    if number and ended and ended <= number then return number - ended end
    begin()
    local count = recount()
    if count == 0 then call('DEL', NUMBER, ENDED) end -- The queue is empty, or new.
    return count
end

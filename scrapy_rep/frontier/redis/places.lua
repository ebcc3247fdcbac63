-- Functions for empty queues, and for places at hosts that become free.

local function is_empty(queue)
    return call('EXISTS', key_of(queue)) == 0
end

-- A place at the host has become free, or was not used: check the next parked queue at *moment*.
local function pass_on(host, moment)
    local ready = prefix .. ':ready'
    repeat
        local queue = call('LPOP', prefix .. ':parked:' .. host)
        if not queue then
            call('HDEL', prefix .. ':host:' .. host, 'parked')
            return
        end
        local is_waiting = call('ZSCORE', ready, queue)
        if is_waiting then call('ZADD', ready, moment, queue) end
    until is_waiting
end

-- Free the place of a worker at a host, if it *had* one. If *fetched*, the host got a request,
-- so that its delay begins. *delay* is the delay that the worker knows.
local function free_place(host, had, fetched, delay, gap)
    local key = prefix .. ':host:' .. host
    local state = call('HMGET', key, 'out', 'free', 'delay', 'known', 'parked')
    local out = (tonumber(state[1]) or 0) - (had and 1 or 0)
    local free = tonumber(state[2]) or 0
    delay = math.max(tonumber(state[3]) or 0, delay)
    if fetched then free = math.max(free, now + delay) end
    local wait = math.max(free - now, 0)
    if had and state[5] then pass_on(host, now + wait) end
    if out > 0 or state[4] or wait > 0 then
        call('HSET', key, 'out', math.max(out, 0))
        if gap > 0 then call('HSET', key, 'gap', gap) end
        if wait > 0 then
            call('HSET', key, 'free', free)
            -- The key must not expire before the next request may be sent. It expires then if
            -- no request is in flight and no robots.txt is known.
            local life = call('PTTL', key)
            local is_idle = out <= 0 and not state[4]
            if is_idle or (life >= 0 and life < wait) then call('PEXPIRE', key, wait) end
        end
    else
        call('DEL', key)
    end
end

-- Free the place that a worker has for a request.
local function leave(worker, number, host, fetched, delay, gap)
    local had = call('HDEL', prefix .. ':leases:' .. worker, '@' .. number) == 1
    free_place(host, had, fetched, delay, gap)
end

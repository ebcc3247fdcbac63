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

-- What may have become of a request, if not 0, for not sent. A higher number is for a host in
-- back-off that did not ask for another pause: the number of the last pause that the worker knew
-- when it got the request. A request that was sent before the host's last pause says nothing.
local FETCHED = 1

-- Free the place that a worker has for a request. If *fetched*, the host got a request, so that
-- its delay begins. *delay* is the delay that the worker knows.
local function leave(worker, number, host, fetched, gap, delay)
    local had = call('HDEL', prefix .. ':leases:' .. worker, '@' .. number) == 1
    local key = prefix .. ':host:' .. host
    local state = call('HMGET', key, 'out', 'free', 'delay', 'known', 'parked', 'paused')
    local out = (tonumber(state[1]) or 0) - (had and 1 or 0)
    local free = tonumber(state[2]) or 0
    delay = math.max(tonumber(state[3]) or 0, delay)
    if fetched >= FETCHED then free = math.max(free, now + delay) end
    local wait = math.max(free - now, 0)
    local is_paused = tonumber(state[6])
    local life = is_paused and math.max(is_paused + REMEMBERED - now, wait) or wait
    if is_paused and fetched > FETCHED
        and fetched >= tonumber(call('ZSCORE', prefix .. ':pauses', host) or 0) then
        call('HINCRBY', key, 'places', 1)
        call('HSET', key, 'own', 0)
    end
    if had and state[5] then pass_on(host, now + wait) end
    if out > 0 or state[4] or life > 0 then
        call('HSET', key, 'out', math.max(out, 0))
        if gap > 0 then call('HSET', key, 'gap', gap) end
        if wait > 0 then call('HSET', key, 'free', free) end
        if life > 0 then
            -- The key must not expire before the next request may be sent. It expires then if
            -- no request is in flight and no robots.txt is known.
            local rest = call('PTTL', key)
            local is_idle = out <= 0 and not state[4]
            if is_idle or (rest >= 0 and rest < life) then call('PEXPIRE', key, life) end
        end
    else
        call('DEL', key)
    end
end

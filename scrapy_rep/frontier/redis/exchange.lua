-- Needs: common, places, arriving, returning, counting
-- What a worker has done since its last call, and what it does next.
--
-- KEYS[2]: the set of fingerprints. ARGV: worker, deadline, the order as JSON, and of each new
-- request: queue, score, request, fingerprint. The order has:
--   known    queues whose robots.txt is known, each with the terms: how long it holds, its crawl
--            delay, how long ago it was fetched, and how long until its visit time; without
--            terms, another worker must fetch it
--   removed  requests that cannot be read, each as queue and number
--   left     requests that have left the downloader: number, host, what has become of it, the gap
--            of its slot if that is not the default, the delay that the worker knows
--   done     numbers of requests whose callbacks have ended
--   back     numbers of requests that the worker does not use
--   wanted   how many requests to hand out at most
--   places, gap, hosts    the limits of a host without a crawl delay, and those of some hosts
--   all_known  whether the crawl ignores robots.txt
--   wait_max   the longest time that requests wait for a host
--   last_pause the number of the last pause that the worker knows
--   quota, enough  how many robots.txt the worker can fetch, and how many ready queues are enough
--
-- Returns whether the call is refused, and the time; the indexes of new requests whose
-- fingerprint is known; how many requests are not done; after how long to ask again; the number of the last pause, and the new
-- ones: host, the rest, the last one that was doubled, and for how long it has lasted; the
-- requests that are handed out: queue, request after its number, 1 if it may be sent or 0 if it
-- is to be refused; and the queues whose robots.txt to fetch: queue, delay of the host, request.
local worker, order = ARGV[1], cjson.decode(ARGV[3])
local ready, unknown = prefix .. ':ready', prefix .. ':unknown'
local leases, learning = prefix .. ':leases:' .. worker, prefix .. ':learning:' .. worker
if is_refused(worker, ARGV[2]) then return { 1, now } end

-- First: a server without memory refuses these, and then nothing of this call has happened.
local seen = {}
for index = 4, #ARGV, 4 do
    if ARGV[index + 3] ~= '' and call('SADD', KEYS[2], ARGV[index + 3]) == 0 then
        table.insert(seen, (index - 4) / 4)
    else
        local item = string.format('%014x', next_number()) .. ARGV[index + 2]
        call('ZADD', key_of(ARGV[index]), ARGV[index + 1], item)
        arrive(ARGV[index])
    end
end
begin()

-- The longest delay of the queues of a host. Forgets those whose robots.txt expired long ago.
local function longest_delay(key)
    local longest, fields, gone = 0, call('HGETALL', key), {}
    for index = 1, #fields, 2 do
        local name = string.match(fields[index], '^k (.*)')
        if name and fields[index + 1] + RESCUE <= now then
            gone['d ' .. name] = true
            call('HDEL', key, 'k ' .. name, 'd ' .. name)
        end
    end
    for index = 1, #fields, 2 do
        local field = fields[index]
        if string.sub(field, 1, 2) == 'd ' and not gone[field] then
            longest = math.max(longest, tonumber(fields[index + 1]))
        end
    end
    return longest
end

local function note_known(queue, holds, delay, ago, opens)
    local key = prefix .. ':host:' .. host_of(queue)
    call('SREM', learning, queue)
    if not holds then
        forget_learning(queue)
        return
    end
    local free = tonumber(call('HGET', key, 'free')) or 0
    -- The fetch of robots.txt was a request to the host too, after which its delay applies.
    free = math.max(free, now + delay - ago)
    call('HSET', key, 'known', 1, 'k ' .. queue, now + holds, 'free', free)
    local before = call('HGET', key, 'd ' .. queue)
    if delay > 0 then
        call('HSET', key, 'd ' .. queue, delay)
    else
        call('HDEL', key, 'd ' .. queue)
    end
    local longest = (delay > 0 or before) and longest_delay(key) or 0
    if longest > 0 then
        call('HSET', key, 'delay', longest)
    elseif before then
        call('HDEL', key, 'delay')
    end
    call('PEXPIRE', key, math.max(call('PTTL', key), holds + RESCUE))
    call('ZREM', unknown, queue)
    if not is_empty(queue) then call('ZADD', ready, now + opens, queue) end
end

-- Remove a request from its queue, where it was among the first just before.
local function remove(queue, number)
    for _, item in ipairs(call('ZRANGE', key_of(queue), 0, 99)) do
        if string.sub(item, 1, 14) == number then
            note_ended(call('ZREM', key_of(queue), item))
        end
    end
end

local function give_back(number)
    local lease = call('HGET', leases, '=' .. number)
    if not lease then return end
    call('HDEL', leases, '=' .. number)
    local queue = put_back(lease)
    leave(worker, number, host_of(queue), 0, 0, 0)
end

for _, each in ipairs(order.removed) do remove(each[1], each[2]) end
for _, each in ipairs(order.known) do note_known(unpack(each)) end
for _, each in ipairs(order.left) do leave(worker, unpack(each)) end
for _, number in ipairs(order.back) do give_back(number) end
local ended = 0
for _, number in ipairs(order.done) do ended = ended + call('HDEL', leases, '=' .. number) end
note_ended(ended)

-- The pauses that the worker does not know.
local pauses = {}
local newer = call('ZRANGEBYSCORE', prefix .. ':pauses', '(' .. order.last_pause, '+inf',
    'WITHSCORES', 'LIMIT', 0, 100)
for index = 1, #newer, 2 do
    local host = newer[index]
    local state = call('HMGET', prefix .. ':host:' .. host, 'paused', 'own', 'since')
    order.last_pause = tonumber(newer[index + 1])
    if state[1] and tonumber(state[1]) > now then
        table.insert(pauses, { host, state[1] - now, tonumber(state[2]), now - state[3] })
    end
end

local function park(queue, host, moment)
    call('HSET', prefix .. ':host:' .. host, 'parked', 1)
    call('RPUSH', prefix .. ':parked:' .. host, queue)
    call('ZADD', ready, moment, queue)
end

local turn = 0.001

-- Hand out the best request of a queue, if its host is ready. If not, check the queue later.
local function hand_out(queue)
    local host = host_of(queue)
    local key = prefix .. ':host:' .. host
    local state = call('HMGET', key,
        'out', 'free', 'gap', 'delay', 'k ' .. queue, 'known', 'asked',
        'places', 'paused', 'own', 'since')
    local own = order.hosts[host]
    local out, free = tonumber(state[1]) or 0, tonumber(state[2]) or 0
    local pause = math.max(tonumber(state[3]) or 0, own and own[2] or order.gap)
    -- A delay begins when a request ends, so a host with a delay gets one at a time.
    local most = (tonumber(state[4]) or 0) > 0 and 1 or own and own[1] or order.places
    local is_known = order.all_known or is_exempt(queue) or (tonumber(state[5]) or 0) > now
    local places = tonumber(state[8])
    local back_off = places and { paused = state[9], own = state[10], since = state[11] }
    if places and places >= most and state[10] == '0' then
        call('HDEL', key, 'places', 'paused', 'own', 'since')
    end
    most = math.min(most, places or most)
    local function is_refused_at(in_flight)
        return back_off and is_refused_for(back_off, in_flight, order.wait_max)
    end
    local is_sent = not is_refused_at(out)
    if not is_known then
        call('ZREM', ready, queue)
        if not is_empty(queue) then call('ZADD', unknown, now, queue) end
        pass_on(host, now)
    elseif is_sent and out >= most then
        park(queue, host, now + RESCUE)
    elseif is_sent and free > now then
        call('ZADD', ready, free, queue)
    elseif is_sent and (tonumber(state[7]) or 0) > now then
        park(queue, host, tonumber(state[7]))
    else
        local item = call('ZPOPMIN', key_of(queue))
        if not item[1] then
            call('ZREM', ready, queue)
            pass_on(host, now)
            return
        end
        local number = string.sub(item[1], 1, 14)
        call('HSET', leases, '=' .. number, cmsgpack.pack({ queue, item[2], item[1] }))
        local found = { queue, item[1], is_sent and 1 or 0 }
        if not is_sent then -- It needs no place.
            if is_empty(queue) then
                call('ZREM', ready, queue)
                call('LREM', prefix .. ':parked:' .. host, 0, queue)
            end
            return found
        end
        out = out + 1
        call('HSET', leases, '@' .. number, host)
        call('HSET', key, 'out', out)
        if pause > 0 then call('HSET', key, 'free', now + pause) end
        -- The key must not expire while a request is in flight.
        if free > 0 and not state[6] then call('PERSIST', key) end
        if is_empty(queue) then
            call('ZREM', ready, queue)
            if out < most then pass_on(host, now + pause) end
        elseif is_refused_at(out) then
            call('ZADD', ready, now, queue)
        elseif out < most then
            -- After the other queues of this call.
            call('ZADD', ready, now + pause + turn, queue)
            turn = turn + 0.001
        else
            park(queue, host, now + RESCUE)
        end
        return found
    end
end

local found, again = {}, 0
if order.wanted > 0 then
    -- Queues that are not ready are rescheduled, so that each is checked once.
    for _ = 1, order.wanted + LOOKS do
        local first = call('ZRANGE', ready, 0, 0, 'WITHSCORES')
        if #found == order.wanted or not first[1] or tonumber(first[2]) >= now + 1 then break end
        found[#found + 1] = hand_out(first[1])
    end
    local first = call('ZRANGE', ready, 0, 0, 'WITHSCORES')[2]
    again = first and math.max(first - now, 0) or RESCUE
end

local wanted = {}
if order.quota > 0 and call('ZCOUNT', ready, '-inf', now) < order.enough then
    for _, queue in ipairs(call('ZRANGEBYSCORE', unknown, '-inf', now, 'LIMIT', 0, order.quota)) do
        local state = call('HMGET', prefix .. ':host:' .. host_of(queue), 'delay', 'k ' .. queue)
        if is_empty(queue) then
            call('ZREM', unknown, queue)
        elseif order.all_known or is_exempt(queue) or (tonumber(state[2]) or 0) > now then
            call('ZREM', unknown, queue)
            call('ZADD', ready, now, queue)
        else
            call('ZADD', unknown, now + RESCUE, queue)
            call('SADD', learning, queue)
            local request = call('ZRANGE', key_of(queue), 0, 0)[1]
            table.insert(wanted, { queue, tonumber(state[1]) or 0, request })
        end
    end
end
return { 0, now, seen, count_all(), again, order.last_pause, pauses, found, wanted }

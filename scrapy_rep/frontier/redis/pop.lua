-- Needs: common, places, counting
-- Record which requests have ended, and hand out the best request of a host that is ready.
--
-- ARGV: worker, deadline, how many queues to check, concurrency limit, gap, limits of some
-- hosts as JSON, 1 if the crawl does not obey robots.txt, the longest time that requests wait for
-- a host, the number of the last pause that the worker has read, how many requests are done; the
-- numbers of these; and for each request that has left the downloader: number, host, what has
-- become of it, its own gap.
--
-- Returns whether the call is refused, the time, after how long to ask again, and the new pauses:
-- the number of the last one, and a list of hosts, each with the rest of its pause, the last one
-- that was doubled, and for how long it has lasted. If a request is handed out, also its queue,
-- the request after its number, and 1 if it may be sent: otherwise it is to be refused.
local worker = ARGV[1]
local looks, limit, gap = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local limits = ARGV[6] ~= '' and cjson.decode(ARGV[6])
local all_known = ARGV[7] == '1'
local ready, leases = prefix .. ':ready', prefix .. ':leases:' .. worker
if is_late(ARGV[2]) then return { 1, now } end

-- Most calls report one request, which has left the downloader and is done. If the worker still
-- has it, the worker is registered, so that need not be checked.
local first_left, ended = 11 + ARGV[10], 0
local is_one = ARGV[10] == '1' and ARGV[11] == ARGV[12]
local fields = is_one and call('HDEL', leases, '=' .. ARGV[11], '@' .. ARGV[11]) or 0
if fields == 0 and is_dead(worker) then return { 1, now } end
if fields > 0 then
    -- Two fields: the place is freed now. One field: an earlier call has freed it. No place
    -- outlasts its request.
    free_place(ARGV[13], fields == 2, tonumber(ARGV[14]), 0, tonumber(ARGV[15]))
    ended, first_left = 1, first_left + 4
else
    for index = 11, first_left - 1 do
        ended = ended + call('HDEL', leases, '=' .. ARGV[index])
    end
end
for index = first_left, #ARGV, 4 do
    local fetched, own_gap = tonumber(ARGV[index + 2]), tonumber(ARGV[index + 3])
    leave(worker, ARGV[index], ARGV[index + 1], fetched, 0, own_gap)
end
note_ended(ended)

local function park(queue, host, moment)
    begin()
    call('HSET', prefix .. ':host:' .. host, 'parked', 1)
    call('RPUSH', prefix .. ':parked:' .. host, queue)
    call('ZADD', ready, moment, queue)
end

-- The pauses that the worker does not know.
local last_read, pauses = tonumber(ARGV[9]), {}
local found = call('ZRANGEBYSCORE', prefix .. ':pauses', '(' .. ARGV[9], '+inf',
    'WITHSCORES', 'LIMIT', 0, 100)
for index = 1, #found, 2 do
    local host = found[index]
    local state = call('HMGET', prefix .. ':host:' .. host, 'paused', 'own', 'since')
    last_read = tonumber(found[index + 1])
    if state[1] and tonumber(state[1]) > now then
        table.insert(pauses, { host, state[1] - now, tonumber(state[2]), now - state[3] })
    end
end
pauses = { last_read, pauses }

for _ = 1, looks do
    local first = call('ZRANGE', ready, 0, 0, 'WITHSCORES')
    local queue, moment = first[1], tonumber(first[2])
    if not queue or moment > now then break end
    local host = host_of(queue)
    local key = prefix .. ':host:' .. host
    local state = call('HMGET', key,
        'out', 'free', 'gap', 'delay', 'k ' .. queue, 'known', 'asked',
        'places', 'paused', 'own', 'since')
    local own = limits and limits[host]
    local out, free = tonumber(state[1]) or 0, tonumber(state[2]) or 0
    local pause = math.max(tonumber(state[3]) or 0, own and own[2] or gap)
    -- A delay begins when a request ends, so a host with a delay gets one at a time.
    local most = (tonumber(state[4]) or 0) > 0 and 1 or own and own[1] or limit
    local is_known = all_known or is_exempt(queue) or (tonumber(state[5]) or 0) > now
    local places = tonumber(state[8])
    local back_off = places and { paused = state[9], own = state[10], since = state[11] }
    local function is_unwanted(in_flight)
        return back_off and is_refused_for(back_off, in_flight, tonumber(ARGV[8]))
    end
    if places then
        if places >= most and state[10] == '0' then
            begin()
            call('HDEL', key, 'places', 'paused', 'own', 'since')
        end
        most = math.min(most, places)
    end
    if not is_known then
        call('ZREM', ready, queue)
        if not is_empty(queue) then call('ZADD', prefix .. ':unknown', now, queue) end
        pass_on(host, now)
    elseif out >= most and not is_unwanted(out) then
        park(queue, host, now + RESCUE)
    elseif free > now and not is_unwanted(out) then
        begin()
        call('ZADD', ready, free, queue)
    elseif (tonumber(state[7]) or 0) > now and not is_unwanted(out) then
        park(queue, host, tonumber(state[7]))
    else
        local item = call('ZPOPMIN', key_of(queue))
        if not item[1] then
            call('ZREM', ready, queue)
            pass_on(host, now)
        else
            local number = string.sub(item[1], 1, 14)
            local lease = cmsgpack.pack({ queue, item[2], item[1] })
            if is_unwanted(out) then
                -- The worker refuses it, so it needs no place.
                call('HSET', leases, '=' .. number, lease)
                if is_empty(queue) then call('ZREM', ready, queue) end
                return { 0, now, 0, pauses, queue, item[1] }
            end
            call('HSET', leases, '=' .. number, lease, '@' .. number, host)
            out = out + 1
            if pause > 0 then
                call('HSET', key, 'out', out, 'free', now + pause)
            else
                call('HSET', key, 'out', out)
            end
            -- The key must not expire while a request is in flight.
            if free > 0 and not state[6] then call('PERSIST', key) end
            if is_empty(queue) then
                call('ZREM', ready, queue)
                if out < most then pass_on(host, now + pause) end
            elseif is_unwanted(out) then
                call('ZADD', ready, now, queue)
            elseif out < most then
                call('ZADD', ready, now + pause, queue)
            else
                park(queue, host, now + RESCUE)
            end
            return { 0, now, 0, pauses, queue, item[1], 1 }
        end
    end
end

local first = call('ZRANGE', ready, 0, 0, 'WITHSCORES')[2]
return { 0, now, first and math.max(first - now, 0) or RESCUE, pauses }

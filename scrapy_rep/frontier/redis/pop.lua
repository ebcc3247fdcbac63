-- Needs: common, places, counting
-- Record which requests have ended, and hand out the best request of a host that is ready.
--
-- ARGV: worker, deadline, how many queues to check, concurrency limit, gap, limits of some
-- hosts as JSON, 1 if the crawl does not obey robots.txt, how many requests are done; the
-- numbers of these; and for each request that has left the downloader: number, host, whether it
-- was fetched, its own gap.
--
-- Returns whether the call is refused, the time, and after how long to ask again; and if a
-- request is handed out, its queue, and the request after its number.
local worker = ARGV[1]
local looks, limit, gap = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local limits = ARGV[6] ~= '' and cjson.decode(ARGV[6])
local all_known = ARGV[7] == '1'
local ready, leases = prefix .. ':ready', prefix .. ':leases:' .. worker
if is_late(ARGV[2]) then return { 1, now } end

-- Most calls report one request, which has left the downloader and is done. If the worker still
-- has it, the worker is registered, so that need not be checked.
local first_left, ended = 9 + ARGV[8], 0
local is_one = ARGV[8] == '1' and ARGV[9] == ARGV[10]
local fields = is_one and call('HDEL', leases, '=' .. ARGV[9], '@' .. ARGV[9]) or 0
if fields == 0 and is_dead(worker) then return { 1, now } end
if fields > 0 then
    -- Two fields: the place is freed now. One field: an earlier call has freed it. No place
    -- outlasts its request.
    free_place(ARGV[11], fields == 2, ARGV[12] == '1', 0, tonumber(ARGV[13]))
    ended, first_left = 1, first_left + 4
else
    for index = 9, first_left - 1 do
        ended = ended + call('HDEL', leases, '=' .. ARGV[index])
    end
end
for index = first_left, #ARGV, 4 do
    local fetched = ARGV[index + 2] == '1'
    leave(worker, ARGV[index], ARGV[index + 1], fetched, 0, tonumber(ARGV[index + 3]))
end
note_ended(ended)

local function park(queue, host, moment)
    begin()
    call('HSET', prefix .. ':host:' .. host, 'parked', 1)
    call('RPUSH', prefix .. ':parked:' .. host, queue)
    call('ZADD', ready, moment, queue)
end

for _ = 1, looks do
    local first = call('ZRANGE', ready, 0, 0, 'WITHSCORES')
    local queue, moment = first[1], tonumber(first[2])
    if not queue or moment > now then break end
    local host = host_of(queue)
    local key = prefix .. ':host:' .. host
    local state = call('HMGET', key,
        'out', 'free', 'gap', 'delay', 'k ' .. queue, 'known', 'asked')
    local own = limits and limits[host]
    local out, free = tonumber(state[1]) or 0, tonumber(state[2]) or 0
    local pause = math.max(tonumber(state[3]) or 0, own and own[2] or gap)
    -- A delay begins when a request ends, so a host with a delay gets one at a time.
    local most = (tonumber(state[4]) or 0) > 0 and 1 or own and own[1] or limit
    local is_known = all_known or is_exempt(queue) or (tonumber(state[5]) or 0) > now
    if not is_known then
        call('ZREM', ready, queue)
        if not is_empty(queue) then call('ZADD', prefix .. ':unknown', now, queue) end
        pass_on(host, now)
    elseif out >= most then
        park(queue, host, now + RESCUE)
    elseif free > now then
        begin()
        call('ZADD', ready, free, queue)
    elseif (tonumber(state[7]) or 0) > now then
        park(queue, host, tonumber(state[7]))
    else
        local item = call('ZPOPMIN', key_of(queue))
        if not item[1] then
            call('ZREM', ready, queue)
            pass_on(host, now)
        else
            local number = string.sub(item[1], 1, 14)
            local lease = cmsgpack.pack({ queue, item[2], item[1] })
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
            elseif out < most then
                call('ZADD', ready, now + pause, queue)
            else
                park(queue, host, now + RESCUE)
            end
            return { 0, now, 0, queue, item[1] }
        end
    end
end

local first = call('ZRANGE', ready, 0, 0, 'WITHSCORES')[2]
return { 0, now, first and math.max(first - now, 0) or RESCUE }

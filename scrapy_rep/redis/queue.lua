-- The queue that several workers share. Each call is what one worker has done since its last call
-- and what it wants now, and happens as a whole.
--
-- KEYS: the prefix of all keys, and the set of fingerprints. The prefix is a hash tag, so that in a
-- Redis Cluster all keys are on one server. ARGV: the worker; its order, as JSON (see the end); and
-- of each new request: queue, score, request, fingerprint.
--
-- A *queue* holds the requests to one origin, and is named "HOST<tab>ORIGIN". Delays and limits
-- apply to its host. A *place* at a host is the right to have one request to it in flight. A
-- worker holds requests and places until its lease expires.
--
--   :ready         sorted set   queues whose robots.txt is known -> when to check them next
--   :wanted        sorted set   queues whose robots.txt is wanted -> when to fetch it
--   :queue:QUEUE   sorted set   requests, by priority; each begins with its number
--   :host:HOST     hash         state: see FIELDS; QUEUE: until when its robots.txt is known, and
--                               its crawl delay
--   :pauses        sorted set   hosts -> a number that grows with each pause
--   :parked:HOST   list         queues that wait until a request to their host ends
--   :workers       sorted set   workers -> when their leases expire
--   :leases:WORKER hash         "=NUMBER" -> request that the worker has; "@NUMBER" -> host
--                               at which that request has a place
--   :fetching:WORKER set        queues whose robots.txt the worker fetches
--   :aside         sorted set   requests that some workers cannot read -> a number that grows
--   :mark                       tells this queue from another one with the same name
--   :number                     the last number: of a request that was pushed or set aside
--   :count                      how many requests are not done, without those in :aside
--
-- Moments and durations are in milliseconds, by the clock of the server.
-- Every queue that is not empty is in :ready or in :wanted.

local prefix = KEYS[1]
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local worker, order = ARGV[1], cjson.decode(ARGV[2])

-- A server that was suspended runs the calls that had arrived before. A worker that does not wait
-- for the answer any more gets nothing.
if order.deadline > 0 and now > order.deadline then return { now } end

-- The queue that the worker knows is gone: it must notice before anything changes.
local MARK = prefix .. ':mark'
local mark = call('GET', MARK)
if order.mark ~= '' and order.mark ~= mark then return { now, '' } end

local ready, wanted, pauses = prefix .. ':ready', prefix .. ':wanted', prefix .. ':pauses'
local workers, aside = prefix .. ':workers', prefix .. ':aside'
local NUMBER, COUNT = prefix .. ':number', prefix .. ':count'
local leases, fetching = prefix .. ':leases:' .. worker, prefix .. ':fetching:' .. worker

-- When to check a queue that waits for an event, in case that the event never comes.
local RESCUE = 3600 * 1000

-- For how long the state of a host is kept, at least, if no robots.txt is known that says it.
local DAY = 24 * RESCUE

-- How many queues that are not ready one call checks, and how many requests it takes to refuse.
local LOOKS = 32

-- How long a place stays reserved for a request that did not get it. Workers ask again after
-- two seconds at most.
local PATIENCE = 3000

-- What may have become of a request, if not 0, for not sent. A higher number is for a host in
-- back-off that did not ask for another pause: the number of the last pause that the worker knew
-- when it got the request. A request that was sent before the host's last pause says nothing.
local SENT = 1

-- Call a command with many arguments, of which each *size* belong together.
local function call_with(command, key, arguments, size)
    local at_once = 1000 * size
    for first = 1, #arguments, at_once do
        local last = math.min(first + at_once - 1, #arguments)
        call(command, key, unpack(arguments, first, last))
    end
end

-- Queues.

local function key_of(queue)
    return prefix .. ':queue:' .. queue
end

local function is_empty(queue)
    return call('EXISTS', key_of(queue)) == 0
end

-- When to check ready queues, as far as it is not written yet; false for those that are not ready.
local due = {}

local function check_at(queue, moment)
    due[queue] = moment
end

local function not_ready(queue)
    due[queue] = false
end

local function is_ready(queue)
    if due[queue] ~= nil then return due[queue] end
    return call('ZSCORE', ready, queue)
end

local function write_due()
    local moments, gone = {}, {}
    for queue, moment in pairs(due) do
        if moment then
            moments[#moments + 1], moments[#moments + 2] = moment, queue
        else
            gone[#gone + 1] = queue
        end
    end
    call_with('ZADD', ready, moments, 2)
    call_with('ZREM', ready, gone, 1)
    due = {}
end

-- Hosts. The state of one is read once, and written once: its numbers, in this order, without the
-- zeros at the end.

local FIELDS = {
    'in_flight', -- the number of requests in flight
    'known', -- 1 if the robots.txt of any queue is known
    'next_at', -- when the next request may be sent
    'gap', -- between the starts of two requests
    'delay', -- from the end of one request to the start of the next
    'parked', -- 1 if queues are parked
    'asked', -- until when the place is reserved for a request that did not come from a queue

    -- Only during the back-off of a host that answered 429 or 503:
    'places', -- requests that may be in flight
    'paused', -- the end of its last pause
    'own', -- the last pause that was doubled, 0 after a success
    'since', -- the first such answer since a success
}
local zeros, hosts = { __index = {} }, {}
for _, field in ipairs(FIELDS) do zeros.__index[field] = 0 end

-- Until when a robots.txt is known, and its delay, as they are stored.
local function terms_of(text)
    local known_until, delay = string.match(text or '', '^(%d+) ?(%d*)')
    return tonumber(known_until) or 0, tonumber(delay) or 0
end

-- Return the state of a host. If one of its queues is named, *known_until* has that.
local function host_named(name, queue)
    local host = hosts[name]
    if not host then
        local key = prefix .. ':host:' .. name
        local found = call('HMGET', key, 'state', queue or '')
        host = setmetatable({ name = name, key = key, known_until = {} }, zeros)
        local index = 0
        for value in string.gmatch(found[1] or '', '%S+') do
            index = index + 1
            host[FIELDS[index] or ''] = tonumber(value) or 0
        end
        if queue then host.known_until[queue] = terms_of(found[2]) end
        hosts[name] = host
    elseif queue and not host.known_until[queue] then
        host.known_until[queue] = terms_of(call('HGET', host.key, queue))
    end
    return host
end

local function host_of(queue)
    return host_named(string.match(queue, '^[^\t]*'), queue)
end

local function set(host, field, value)
    host[field], host.is_changed = value, true
end

-- Whether requests of a queue may be sent, as far as robots.txt goes. It does not apply to a queue
-- without an origin.
local function is_known(queue, host)
    return order.all_known or string.sub(queue, -1) == '\t'
        or (host or host_of(queue)).known_until[queue] > now
end

-- Write the state of a host. It expires when nothing is in flight, known, paused or parked, and the
-- next request may be sent.
local function write(host)
    local values, last = {}, #FIELDS
    while last > 1 and host[FIELDS[last]] == 0 do last = last - 1 end
    for index = 1, last do values[index] = host[FIELDS[index]] end
    call('HSET', host.key, 'state', table.concat(values, ' '))
    if host.in_flight + host.known + host.paused + host.parked == 0 then
        call('PEXPIREAT', host.key, math.max(host.next_at, host.asked))
    elseif host.known == 0 or host.kept_until then
        local kept_until = host.kept_until or now + DAY
        if call('PTTL', host.key) < kept_until - now then
            call('PEXPIREAT', host.key, kept_until)
        end
    end
end

-- Whether a host pauses, or has not answered well since.
local function backs_off(host)
    return host.paused > now or host.own > 0
end

-- Whether the requests of a host in back-off are refused, as in ``core.py``, while so many of
-- them are in flight.
local function is_refused(host, in_flight)
    if host.paused == 0 then return false end
    if host.paused <= now and in_flight == 0 then return false end -- This one asks if it is back.
    local is_long = host.paused - now > order.wait_max
    return is_long or (host.own > 0 and now - host.since >= order.wait_max)
end

-- A place at the host has become free, or was not used: check the next parked queue at *moment*.
local function pass_on(host, moment)
    while host.parked > 0 do
        local queue = call('LPOP', prefix .. ':parked:' .. host.name)
        if not queue then
            set(host, 'parked', 0)
        elseif is_ready(queue) then
            check_at(queue, moment)
            return
        end
    end
end

local function park(queue, host, moment)
    set(host, 'parked', 1)
    call('RPUSH', prefix .. ':parked:' .. host.name, queue)
    check_at(queue, moment)
end

-- Send nothing to the host before *moment*.
local function hold(host, moment)
    if moment > math.max(host.next_at, now) then set(host, 'next_at', moment) end
end

-- Free the place of a request, if a worker *had* it. If it was sent, the delay of the host begins.
-- *delay* is the one that the worker knows, and *gap* that of its slot, if not the default.
local function leave(had, name, fate, gap, delay)
    local host = host_named(name)
    if had then set(host, 'in_flight', math.max(host.in_flight - 1, 0)) end
    if fate >= SENT then hold(host, now + math.max(host.delay, delay or 0)) end
    if host.paused > 0 and fate > SENT and fate >= tonumber(call('ZSCORE', pauses, name) or 0) then
        set(host, 'places', host.places + 1)
        set(host, 'own', 0)
    end
    if (gap or 0) > 0 then set(host, 'gap', gap) end
    if had then pass_on(host, math.max(host.next_at, now)) end
end

-- The counters. If one was lost or garbled, it is set again, with a warning.

local count, change, is_healed = redis.pcall('GET', COUNT), 0, 0
count = type(count) == 'string' and tonumber(count)

-- Return the number before those of so many new requests. If the last number was lost or garbled,
-- they continue from the clock, after all earlier ones.
local function new_numbers(number)
    local last = redis.pcall('INCRBY', NUMBER, number)
    if type(last) ~= 'number' or last <= number then
        last = now * 1000 + number
        call('SET', NUMBER, last)
        if (count or 0) > 0 then is_healed = 1 end
    end
    return last - number
end

-- A request with its number, as it is stored.
local function numbered(number, request)
    return string.format('%014x', number) .. request
end
local IS_NUMBERED = '^' .. string.rep('%x', 14)

-- Leases.

local new_leases = {}

local function write_all()
    call_with('HSET', leases, new_leases, 2)
    new_leases = {}
    write_due()
    for _, host in pairs(hosts) do
        if host.is_changed then write(host) end
    end
    hosts = {}
end

-- Take the best requests of a queue for the worker, with a place at their host if that is named.
-- Returns whether there were any.
local function take(queue, most, host, found)
    local items = call('ZPOPMIN', key_of(queue), most)
    for index = 1, #items, 2 do
        local item, last = items[index], #new_leases
        -- One that this script has not written has no number.
        if not string.find(item, IS_NUMBERED) then item = numbered(new_numbers(1) + 1, item) end
        local number = string.sub(item, 1, 14)
        local lease = table.concat({ items[index + 1], queue, item }, '\n')
        new_leases[last + 1], new_leases[last + 2] = '=' .. number, lease
        if host then
            new_leases[last + 3], new_leases[last + 4] = '@' .. number, host
        end
        found[#found + 1] = lease
    end
    return #items > 0
end

-- Schedule a check, at once, of a queue that has got requests, unless one is scheduled already.
local function arrive(queue)
    if is_ready(queue) or call('ZSCORE', wanted, queue) then return end
    if is_known(queue) then
        check_at(queue, now)
    else
        call('ZADD', wanted, now, queue)
    end
end

-- Put a request back into its queue, before those that were pushed later. One that is garbled is
-- gone.
local function put_back(lease)
    local score, queue, item = string.match(lease, '^(.-)\n(.-)\n(.*)$')
    if not tonumber(score) then
        change = change - 1
        return
    end
    call('ZADD', key_of(queue), score, item)
    arrive(queue)
end

-- Keep a request that this worker cannot read for those that have not *tried*.
local function set_aside(lease, tried)
    call('ZADD', aside, new_numbers(1) + 1, tried .. worker .. '\n' .. lease)
    change = change - 1
end

-- Let any worker fetch the robots.txt of a queue.
local function want(queue)
    if is_empty(queue) then
        call('ZREM', wanted, queue)
    else
        call('ZADD', wanted, 'XX', now, queue)
    end
end

-- Return to the queue all that a worker has, but what is in *kept*. Its hosts count as having got
-- a request if *fate* says so. Returns the number of requests.
local function return_all(name, fate, kept)
    local key, count = prefix .. ':leases:' .. name, 0
    local all = call('HGETALL', key)
    for index = 1, #all, 2 do
        local field, value = all[index], all[index + 1]
        if not kept[field] then
            call('HDEL', key, field)
            if string.sub(field, 1, 1) == '=' then
                put_back(value)
                count = count + 1
            else
                leave(true, value, fate)
            end
        end
    end
    local queues = prefix .. ':fetching:' .. name
    for _, queue in ipairs(call('SMEMBERS', queues)) do
        if not kept[queue] then
            call('SREM', queues, queue)
            want(queue)
        end
    end
    return count
end

-- Renew the lease of the worker. If another worker's lease has expired, return all it has to the
-- queue. Returns 1 if the worker is new, or its lease had expired and another one has noticed; and
-- how many requests have returned.
local function renew()
    local is_new = call('ZADD', workers, now + order.lease, worker)
    local dead = call('ZRANGEBYSCORE', workers, '-inf', now, 'LIMIT', 0, 1)[1]
    if not dead then return is_new, 0 end
    call('ZREM', workers, dead)
    return is_new, return_all(dead, SENT, {})
end

-- Count the requests, if their count was lost or garbled. Returns how many there are.
local function count_all()
    local total = 0
    for _, key in ipairs({ ready, wanted }) do
        for _, queue in ipairs(call('ZRANGE', key, 0, -1)) do
            total = total + call('ZCARD', key_of(queue))
        end
    end
    for _, name in ipairs(call('ZRANGE', workers, 0, -1)) do
        for _, field in ipairs(call('HKEYS', prefix .. ':leases:' .. name)) do
            if string.sub(field, 1, 1) == '=' then total = total + 1 end
        end
    end
    return total
end

-- Return how many requests are not done.
local function update_count()
    local is_lost = not count or count + change < 0
    local total = is_lost and count_all() or count + change
    if change ~= 0 or is_lost and total > 0 then call('SET', COUNT, total) end
    if is_lost and total ~= change then is_healed = 1 end
    return total
end

-- What the worker has done.

-- Add new requests, unless their fingerprints are known. Returns the indexes of those. A server
-- without memory refuses the first of these writes, and then nothing of the call has happened.
local function push()
    local seen, new, names, items = {}, {}, {}, {}
    for index = 3, #ARGV, 4 do
        local fingerprint = ARGV[index + 3]
        if fingerprint ~= '' and call('SADD', KEYS[2], fingerprint) == 0 then
            seen[#seen + 1] = (index - 3) / 4
        else
            new[#new + 1] = index
        end
    end
    if #new == 0 then return seen end
    local number = new_numbers(#new)
    for _, index in ipairs(new) do
        local queue = ARGV[index]
        if not items[queue] then
            names[#names + 1], items[queue] = queue, {}
        end
        local item = items[queue]
        number = number + 1
        item[#item + 1] = ARGV[index + 1]
        item[#item + 1] = numbered(number, ARGV[index + 2])
    end
    for _, queue in ipairs(names) do
        call_with('ZADD', key_of(queue), items[queue], 2)
        arrive(queue)
    end
    change = change + #new
    return seen
end

-- The longest delay of the queues of a host. Forgets those whose robots.txt expired long ago.
local function longest_delay(host)
    local longest, fields = 0, call('HGETALL', host.key)
    for index = 1, #fields, 2 do
        local known_until, delay = terms_of(fields[index + 1])
        if fields[index] ~= 'state' and known_until + RESCUE <= now then
            call('HDEL', host.key, fields[index])
        elseif fields[index] ~= 'state' then
            longest = math.max(longest, delay)
        end
    end
    return longest
end

-- The robots.txt of a queue is known. *holds*: how long. It was a request to the host, after which its
-- delay applies, from now on: only this clock counts.
local function note_known(queue, holds, delay)
    local host = host_of(queue)
    hold(host, now + delay)
    set(host, 'known', 1)
    call('HSET', host.key, queue, now + holds .. (delay > 0 and ' ' .. delay or ''))
    host.known_until[queue] = now + holds
    host.kept_until = math.max(host.kept_until or 0, now + holds + RESCUE)
    if delay > 0 or host.delay > 0 then set(host, 'delay', longest_delay(host)) end
    call('SREM', fetching, queue)
    call('ZREM', wanted, queue)
    if not is_empty(queue) then check_at(queue, now) end
end

-- The worker does not fetch the robots.txt of a queue after all: the spider closes, or it cannot
-- read the request with this number, which was among the first just before.
local function note_unknown(queue, number)
    local key = key_of(queue)
    local first = number and call('ZRANGE', key, 0, 99, 'WITHSCORES') or {}
    for index = 1, #first, 2 do
        local item = first[index]
        if string.sub(item, 1, 14) == number then
            call('ZREM', key, item)
            set_aside(table.concat({ first[index + 1], queue, item }, '\n'), '')
        end
    end
    -- A worker that was taken for dead has it no more: another one may fetch it.
    if call('SREM', fetching, queue) == 1 then want(queue) end
end

-- The worker does not use a request. If it cannot read it, *tried* are those that could not before.
local function give_back(number, tried)
    local found = call('HMGET', leases, '=' .. number, '@' .. number)
    if not found[1] then return end
    call('HDEL', leases, '=' .. number, '@' .. number)
    if tried then set_aside(found[1], tried) else put_back(found[1]) end
    if found[2] then leave(true, found[2], 0) end
end

-- Requests have left the downloader.
local function leave_all()
    local fields = {}
    for index, each in ipairs(order.left) do fields[index] = '@' .. each[1] end
    if #fields == 0 then return end
    local places = call('HMGET', leases, unpack(fields))
    call('HDEL', leases, unpack(fields))
    for index, each in ipairs(order.left) do
        leave(places[index], each[2], each[3], each[4], each[5])
    end
end

-- The callbacks of requests have ended.
local function end_all()
    local fields = {}
    for index, number in ipairs(order.done) do fields[index] = '=' .. number end
    if #fields > 0 then change = change - call('HDEL', leases, unpack(fields)) end
end

-- A host has answered 429 or 503: no worker sends anything to it for a while.
local function back_off(name, pause, own)
    local host = host_named(name)
    set(host, 'paused', math.max(now + pause, host.paused))
    if host.own == 0 then set(host, 'since', now) end
    set(host, 'own', math.max(own, host.own, 1)) -- 0 after a success only.
    set(host, 'places', 1)
    set(host, 'next_at', math.max(host.paused, host.next_at))
    host.kept_until = math.max(host.kept_until or 0, host.paused + DAY)

    -- Each worker reads the pauses that are newer than the last one that it has read.
    local last = tonumber(call('ZREVRANGE', pauses, 0, 0, 'WITHSCORES')[2]) or 0
    call('ZADD', pauses, math.max(last + 1, now), name)
    if call('PTTL', pauses) < host.kept_until - now then
        call('PEXPIREAT', pauses, host.kept_until)
    end
    for _, each in ipairs(call('ZRANGE', pauses, 0, 7)) do
        if not backs_off(host_named(each)) then call('ZREM', pauses, each) end
    end

    if is_refused(host, host.in_flight) then
        -- Its queues are checked now, for the requests to be refused.
        for _, queue in ipairs(call('HKEYS', host.key)) do
            call('ZADD', ready, 'XX', now, queue)
        end
        call('ZADD', ready, 'XX', now, name .. '\t')
    end
end

-- What the worker gets.

-- The pauses that the worker does not know, also those that are over, if there was no success since.
local function newer_pauses()
    local found = {}
    local newer = call('ZRANGEBYSCORE', pauses, '(' .. order.last_pause, '+inf', 'WITHSCORES',
        'LIMIT', 0, 100)
    for index = 1, #newer, 2 do
        local host = host_named(newer[index])
        order.last_pause = tonumber(newer[index + 1])
        if backs_off(host) then
            found[#found + 1] = { host.name, host.paused - now, host.own, now - host.since }
        end
    end
    return found
end

-- Take the only place at a host, for a request that did not come from a queue. Returns 1 if the
-- worker has it now, else 0.
local function acquire(number, name)
    local host = host_named(name)
    if host.in_flight > 0 or host.next_at > now then
        -- The worker asks again soon. Until then no queue may take the place, or the request might
        -- never get it.
        set(host, 'asked', now + PATIENCE)
        return 0
    end
    set(host, 'asked', 0)
    set(host, 'in_flight', 1)
    call('HSET', leases, '@' .. number, name)
    return 1
end

-- Hand out requests of a queue even if its host is not ready, because the worker refuses them.
local function hand_out_refused(queue, refused)
    take(queue, LOOKS, nil, refused)
    if is_empty(queue) then
        not_ready(queue)
        local had = call('SREM', fetching, queue) == 1
        -- Unless another worker fetches its robots.txt, since this one was taken for dead.
        if had or (tonumber(call('ZSCORE', wanted, queue)) or 0) <= now then
            call('ZREM', wanted, queue)
        end
    end
end

local turn = 0.001

-- Hand out the best request of a queue, if its host is ready. If not, check the queue later.
local function hand_out(queue, found, refused)
    local host = host_of(queue)
    local own = order.hosts[host.name]
    local gap = math.max(host.gap, own and own[2] or order.gap)
    -- A delay begins when a request ends, so a host with a delay gets one at a time.
    local most = host.delay > 0 and 1 or own and own[1] or order.limit
    if host.places >= most and host.own == 0 then
        for _, field in ipairs({ 'places', 'paused', 'own', 'since' }) do set(host, field, 0) end
    end
    if host.places > 0 then most = math.min(most, host.places) end
    if not is_known(queue, host) then
        not_ready(queue)
        if not is_empty(queue) then call('ZADD', wanted, now, queue) end
        return pass_on(host, now)
    end
    if is_refused(host, host.in_flight) then -- It needs no place.
        check_at(queue, now)
        if not take(queue, 1, nil, refused) or is_empty(queue) then
            not_ready(queue)
            call('LREM', prefix .. ':parked:' .. host.name, 0, queue)
        end
        return
    end
    if host.in_flight >= most then return park(queue, host, now + RESCUE) end
    if host.next_at > now then return check_at(queue, host.next_at) end
    if host.asked > now then return park(queue, host, host.asked) end
    if not take(queue, 1, host.name, found) then
        not_ready(queue)
        return pass_on(host, now)
    end
    local in_flight = host.in_flight + 1
    set(host, 'in_flight', in_flight)
    if gap > 0 then set(host, 'next_at', now + gap) end
    if is_empty(queue) then
        not_ready(queue)
        if in_flight < most then pass_on(host, now + gap) end
    elseif is_refused(host, in_flight) then
        check_at(queue, now)
    elseif in_flight < most then
        -- After the other queues of this call.
        check_at(queue, now + gap + turn)
        turn = turn + 0.001
    else
        park(queue, host, now + RESCUE)
    end
end

-- The requests that were set aside after those that the worker has seen.
local function newer_aside(command, ...)
    return call(command, aside, string.format('(%.0f', order.last_aside), '+inf', ...)
end

-- Hand out requests that other workers could not read, without a place.
local function hand_out_aside()
    local found = {}
    local newer = order.wanted > 0
        and newer_aside('ZRANGEBYSCORE', 'WITHSCORES', 'LIMIT', 0, order.wanted) or {}
    for index = 1, #newer, 2 do
        local tried, lease = string.match(newer[index], '^(%w*)\n(.*)$')
        local number = string.match(lease or '', '^.-\n.-\n(' .. string.rep('%x', 14) .. ')')
        order.last_aside = tonumber(newer[index + 1])
        if number and not string.find(tried, worker, 1, true) then
            call('ZREM', aside, newer[index])
            call('HSET', leases, '=' .. number, lease)
            change = change + 1
            found[#found + 1] = { lease, tried }
        end
    end
    return found
end

-- Hand out the requests that the worker wants. Returns after how long to ask again.
local function hand_out_all(found, refused)
    if order.wanted == 0 then return RESCUE end
    local looks = order.wanted + LOOKS
    while looks > 0 do
        local left = math.min(order.wanted - #found - #refused, looks)
        if left <= 0 then break end
        write_due()
        local queues = call('ZRANGEBYSCORE', ready, '-inf', '(' .. now + 1, 'LIMIT', 0, left)
        if #queues == 0 then break end
        looks = looks - #queues
        -- Queues that are not ready are rescheduled, so that each is checked once.
        for _, queue in ipairs(queues) do hand_out(queue, found, refused) end
    end
    write_due()
    local first = call('ZRANGE', ready, 0, 0, 'WITHSCORES')[2]
    return first and math.max(first - now, 0) or RESCUE
end

-- Return the queues whose robots.txt the worker is to fetch, with a request of each, and the delay
-- of its host; none if enough queues are ready.
local function hand_out_wanted()
    local found = {}
    if order.quota <= 0 or call('ZCOUNT', ready, '-inf', now) >= order.enough then return found end
    for _, queue in ipairs(call('ZRANGEBYSCORE', wanted, '-inf', now, 'LIMIT', 0, order.quota)) do
        local host, item = host_of(queue), call('ZRANGE', key_of(queue), 0, 0)[1]
        if not item or is_known(queue) then
            call('ZREM', wanted, queue)
            if item then check_at(queue, now) end
        else
            call('ZADD', wanted, now + RESCUE, queue)
            call('SADD', fetching, queue)
            found[#found + 1] = { table.concat({ 0, queue, item }, '\n'), host.delay }
        end
    end
    return found
end

-- The order of a worker has:
--   deadline   when the worker no longer waits for the answer; 0 if it does not know the time
--   mark       the mark of the queue that the worker knows, or "". If the queue has another one
--              now, or none, the worker gets the time and "" alone
--   lease      for how long its lease is renewed
--   known, unknown  queues whose robots.txt is known or not, each with the arguments as above
--   left       requests that have left the downloader: number, host, and the arguments of *leave*
--   done       numbers of requests whose callbacks have ended
--   back       requests that the worker does not use: number, and the workers that could not read
--              it, if this one cannot either
--   paused     hosts that have asked for a pause: host, the pause, the last one that was doubled
--   has        only after a lost answer: the fields of its leases, and the queues whose robots.txt
--              it fetches. Everything else returns to the queue
--   retires    whether the worker ends: all it has returns to the queue
--   refuses    the queue whose requests it refuses, or ""
--   acquire    the number and the host of a request that is not from the queue, or nothing
--   wanted     how many requests to hand out at most
--   limit, gap, hosts    the limits of a host without a crawl delay, and those of some hosts
--   all_known  whether the crawl ignores robots.txt
--   wait_max   the longest time that requests wait for a host
--   last_pause the number of the last pause that the worker knows
--   last_aside the number of the last request that was set aside, as far as it knows
--   quota, enough  how many robots.txt the worker can fetch, and how many ready queues are enough
--
-- Returns the time; the mark of the queue; the indexes of new requests whose fingerprint is known; how
-- many requests are not done, with those that were set aside and that it may be able to read, and 1 if
-- a counter was set again; 1 if the worker is new, and how many requests returned from a dead one; 1
-- if it has acquired the place; after how long to ask again; the number of the last request that was
-- set aside, and how many are, if the worker ends; the number of the last pause, and the new ones:
-- host, the rest, the last one that was doubled, and for how long it has lasted; the requests that
-- may be sent, those that are to be refused, those that were set aside, with the workers that have
-- tried, and those whose robots.txt to fetch, with a delay. A request is
-- "SCORE<newline>QUEUE<newline>NUMBER", and what was pushed; like that it is also leased.
local function exchange()
    local seen, found, refused = push(), {}, {}
    -- A server that is out of memory refuses the writes of a script, unless the first one needs no
    -- memory. Workers must still be able to take requests out.
    call('DEL', prefix .. ':none')
    if not mark and not order.retires then
        mark = worker .. now
        call('SET', MARK, mark)
    end
    local is_new, returned = renew()
    for _, each in ipairs(order.unknown) do note_unknown(unpack(each)) end
    for _, each in ipairs(order.known) do note_known(unpack(each)) end
    leave_all()
    for _, each in ipairs(order.back) do give_back(unpack(each)) end
    end_all()
    for _, each in ipairs(order.paused) do back_off(unpack(each)) end
    local kept = {}
    for _, each in ipairs(not order.retires and order.has or {}) do kept[each] = true end
    if order.has or order.retires then return_all(worker, order.has and SENT or 0, kept) end
    if order.retires then call('ZREM', workers, worker) end
    local new = newer_pauses()
    if order.refuses ~= '' then hand_out_refused(order.refuses, refused) end
    local has_place = #order.acquire > 0 and acquire(unpack(order.acquire)) or 0
    local again, others = hand_out_all(found, refused), hand_out_aside()
    local to_fetch = hand_out_wanted()
    write_all()
    local set_aside_now = order.retires and call('ZCARD', aside) or 0
    return { now, mark or '', seen, update_count() + newer_aside('ZCOUNT'), is_healed, is_new,
        returned, has_place, again, order.last_aside, set_aside_now, order.last_pause, new, found,
        refused, others, to_fetch }
end

-- After an error too, what was taken from a queue must be leased.
local is_done, answer = pcall(exchange)
write_all()
if is_done then return answer end
return type(answer) == 'table' and answer or { err = answer }

-- The queue that several workers share. Each call is one event, and happens as a whole.
--
-- KEYS: the prefix of all keys, and for an exchange the set of fingerprints. The prefix is a hash
-- tag, so that in a Redis Cluster all keys are on one server. ARGV: the event, the worker, the
-- deadline of its call (0 for none), and the arguments of the event. Returns 1 if the call is
-- refused, else 0; the time; and the answers of the event. The events are at the end.
--
-- A *queue* holds the requests to one origin, and is named "HOST<tab>ORIGIN". Delays and limits
-- apply to its host. A *place* at a host is the right to have one request to it in flight. A
-- worker holds requests and places until its lease expires.
--
--   :ready         sorted set   queues whose robots.txt is known -> when to check them next
--   :wanted        sorted set   queues whose robots.txt is wanted -> when to fetch it
--   :queue:QUEUE   sorted set   requests, by priority; each begins with its number
--   :host:HOST     hash         state: see FIELDS; "k QUEUE": until when its robots.txt is known;
--                               "d QUEUE": its crawl delay
--   :pauses        sorted set   hosts -> a number that grows with each pause
--   :parked:HOST   list         queues that wait until a request to their host ends
--   :workers       sorted set   workers -> when their leases expire
--   :leases:WORKER hash         "=NUMBER" -> request that the worker has; "@NUMBER" -> host
--                               at which that request has a place
--   :fetching:WORKER set        queues whose robots.txt the worker fetches
--   :number, :ended             the number of the last request that was pushed; and that, less
--                               the count of requests that are not done
--   :recounted                  set if requests were counted again, until a worker has logged it
--
-- Moments and durations are in milliseconds, by the clock of the server.
-- Every queue that is not empty is in :ready or in :wanted.

local prefix = KEYS[1]
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local event, worker, deadline = ARGV[1], ARGV[2], tonumber(ARGV[3])

local ready, wanted, pauses = prefix .. ':ready', prefix .. ':wanted', prefix .. ':pauses'
local workers, leases = prefix .. ':workers', prefix .. ':leases:' .. worker
local fetching = prefix .. ':fetching:' .. worker
local NUMBER, ENDED = prefix .. ':number', prefix .. ':ended'

-- When to check a queue that waits for an event, in case that the event never comes.
local RESCUE = 3600 * 1000

-- How many queues that are not ready one call checks.
local LOOKS = 32

-- How long a place stays reserved for a request that did not get it. Workers ask again after
-- two seconds at most.
local PATIENCE = 3000

-- How long after a pause the crawl remembers that a host has asked for it.
local REMEMBERED = 600 * 1000

-- What may have become of a request, if not 0, for not sent. A higher number is for a host in
-- back-off that did not ask for another pause: the number of the last pause that the worker knew
-- when it got the request. A request that was sent before the host's last pause says nothing.
local FETCHED = 1

-- A server that is out of memory refuses the writes of a script, unless the first one needs no
-- memory. Workers must still be able to take requests out.
local function begin()
    call('DEL', prefix .. ':none')
end

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

-- Whether robots.txt does not apply to the requests of a queue.
local function is_exempt(queue)
    return string.sub(queue, -1) == '\t'
end

-- When to check ready queues, as far as it is not written yet.
local due = {}

local function check_at(queue, moment)
    due[queue] = moment
end

local function is_ready(queue)
    return due[queue] or call('ZSCORE', ready, queue)
end

local function not_ready(queue)
    due[queue] = nil
    call('ZREM', ready, queue)
end

local function write_due()
    local arguments = {}
    for queue, moment in pairs(due) do
        arguments[#arguments + 1] = moment
        arguments[#arguments + 1] = queue
    end
    call_with('ZADD', ready, arguments, 2)
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
local hosts = {}

-- Return the state of a host. If one of its queues is named, *known_until* has that.
local function host_named(name, queue)
    local host, field = hosts[name], queue and 'k ' .. queue or 'k'
    if not host then
        local key = prefix .. ':host:' .. name
        local found = call('HMGET', key, 'state', field)
        host = { name = name, key = key, known_until = {} }
        local values = string.gmatch(found[1] or '', '%S+')
        for _, each in ipairs(FIELDS) do host[each] = tonumber(values() or 0) or 0 end
        if queue then host.known_until[queue] = tonumber(found[2]) or 0 end
        hosts[name] = host
    elseif queue and not host.known_until[queue] then
        host.known_until[queue] = tonumber(call('HGET', host.key, field)) or 0
    end
    return host
end

local function host_of(queue)
    return host_named(string.match(queue, '^[^\t]*'), queue)
end

local function set(host, field, value)
    host[field], host.is_changed = value, true
end

-- Write the state of a host. It expires when no request is in flight, no robots.txt is known, and
-- the next request may be sent.
local function write(host)
    local life = host.next_at - now
    if host.paused > 0 then life = math.max(life, host.paused + REMEMBERED - now) end
    if host.in_flight <= 0 and host.known == 0 and life <= 0 then
        call('DEL', host.key)
        return
    end
    local values, last = {}, 0
    for index, field in ipairs(FIELDS) do
        values[index] = host[field]
        if host[field] ~= 0 then last = index end
    end
    call('HSET', host.key, 'state', table.concat(values, ' ', 1, last))
    if host.known > 0 then
        life = math.max(life, host.holds and host.holds + RESCUE or 0)
        if life > 0 and call('PTTL', host.key) < life then call('PEXPIRE', host.key, life) end
    elseif host.in_flight > 0 then
        call('PERSIST', host.key)
    else
        call('PEXPIRE', host.key, life)
    end
end

-- Whether the requests of a host in back-off are refused, as in ``core.py``, while so many of
-- them are in flight.
local function is_refused_at(host, in_flight, wait_max)
    if host.paused == 0 then return false end
    if host.paused <= now and in_flight == 0 then return false end -- This one asks if it is back.
    return host.paused - now > wait_max or (host.own > 0 and now - host.since >= wait_max)
end

-- A place at the host has become free, or was not used: check the next parked queue at *moment*.
local function pass_on(host, moment)
    if host.parked == 0 then return end
    repeat
        local queue = call('LPOP', prefix .. ':parked:' .. host.name)
        if not queue then
            set(host, 'parked', 0)
            return
        end
        local is_waiting = is_ready(queue)
        if is_waiting then check_at(queue, moment) end
    until is_waiting
end

local function park(queue, host, moment)
    set(host, 'parked', 1)
    call('RPUSH', prefix .. ':parked:' .. host.name, queue)
    check_at(queue, moment)
end

-- Free the place of a request, if a worker *had* it. If *fetched*, the host got a request, so that
-- its delay begins. *delay* is the delay that the worker knows, and *gap* that of its slot.
local function leave(had, name, fetched, gap, delay)
    local host = host_named(name)
    if had then set(host, 'in_flight', math.max(host.in_flight - 1, 0)) end
    if fetched >= FETCHED then
        local next_at = now + math.max(host.delay, delay)
        if next_at > math.max(host.next_at, now) then set(host, 'next_at', next_at) end
    end
    if host.paused > 0 and fetched > FETCHED
        and fetched >= tonumber(call('ZSCORE', pauses, name) or 0) then
        set(host, 'places', host.places + 1)
        set(host, 'own', 0)
    end
    if gap > 0 then set(host, 'gap', gap) end
    if had then pass_on(host, math.max(host.next_at, now)) end
end

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

-- Note that the worker has a request, and a place at its host if that is named.
local function lease(queue, score, item, host)
    local number = string.sub(item, 1, 14)
    local index = #new_leases
    new_leases[index + 1] = '=' .. number
    new_leases[index + 2] = cmsgpack.pack({ queue, score, item })
    if host then
        new_leases[index + 3] = '@' .. number
        new_leases[index + 4] = host
    end
end

-- Schedule a check, at once, of a queue that has got requests, unless one is scheduled already.
local function arrive(queue)
    if is_ready(queue) or call('ZSCORE', wanted, queue) then return end
    if is_exempt(queue) or host_of(queue).known_until[queue] > now then
        check_at(queue, now)
    else
        call('ZADD', wanted, now, queue)
    end
end

-- Put a request back into its queue, before those that were pushed later. Returns the queue.
local function put_back(packed)
    local item = cmsgpack.unpack(packed)
    call('ZADD', key_of(item[1]), item[2], item[3])
    arrive(item[1])
    return item[1]
end

-- Let any worker fetch the robots.txt of a queue.
local function want(queue)
    if is_empty(queue) then
        call('ZREM', wanted, queue)
    else
        call('ZADD', wanted, 'XX', now, queue)
    end
end

-- Return to the queue all that a worker has, but what is in *kept* and *fetched_by*. Its hosts
-- count as having got a request if *fetched*. Returns the number of requests.
local function return_all(name, fetched, kept, fetched_by)
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
                leave(true, value, fetched, 0, 0)
            end
        end
    end
    local queues = prefix .. ':fetching:' .. name
    for _, queue in ipairs(call('SMEMBERS', queues)) do
        if not fetched_by[queue] then
            call('SREM', queues, queue)
            want(queue)
        end
    end
    return count
end

local function retire(name, fetched)
    call('ZREM', workers, name)
    return return_all(name, fetched, {}, {})
end

-- The count of requests that are not done.

-- Count the requests again, for a new queue, or because a counter was lost or garbled. The
-- numbers of later requests continue from the clock, after all earlier ones.
local function recount()
    local count = 0
    write_all()
    for _, key in ipairs({ ready, wanted }) do
        for _, queue in ipairs(call('ZRANGE', key, 0, -1)) do
            count = count + call('ZCARD', key_of(queue))
        end
    end
    for _, name in ipairs(call('ZRANGE', workers, 0, -1)) do
        for _, field in ipairs(call('HKEYS', prefix .. ':leases:' .. name)) do
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

-- Return the number before those of so many new requests.
local function new_numbers(count)
    local last = add(NUMBER, count)
    if not last then
        recount()
        last = add(NUMBER, count)
    end
    return last - count
end

-- Note that requests are done, which no worker has any more.
local function note_ended(count)
    if count > 0 and not add(ENDED, count) then recount() end
end

local function count_all()
    local found = call('MGET', NUMBER, ENDED)
    local number, ended = tonumber(found[1]), tonumber(found[2])
    if number and ended and ended <= number then return number - ended end
    begin()
    local count = recount()
    if count == 0 then call('DEL', NUMBER, ENDED) end -- The queue is empty, or new.
    return count
end

-- The parts of an exchange.

-- Add new requests, unless their fingerprints are known. Returns the indexes of those. A server
-- without memory refuses the first of these writes, and then nothing of the call has happened.
local function push(words)
    local seen, new, names, items = {}, {}, {}, {}
    for index = 1, #words, 4 do
        if words[index + 3] ~= '' and call('SADD', KEYS[2], words[index + 3]) == 0 then
            seen[#seen + 1] = (index - 1) / 4
        else
            new[#new + 1] = index
        end
    end
    if #new == 0 then return seen end
    local number = new_numbers(#new)
    for _, index in ipairs(new) do
        local queue = words[index]
        if not items[queue] then
            names[#names + 1], items[queue] = queue, {}
        end
        local item = items[queue]
        number = number + 1
        item[#item + 1] = words[index + 1]
        item[#item + 1] = string.format('%014x', number) .. words[index + 2]
    end
    for _, queue in ipairs(names) do
        call_with('ZADD', key_of(queue), items[queue], 2)
        arrive(queue)
    end
    return seen
end

-- Remove a request from its queue, where it was among the first just before.
local function remove(queue, number)
    for _, item in ipairs(call('ZRANGE', key_of(queue), 0, 99)) do
        if string.sub(item, 1, 14) == number then
            note_ended(call('ZREM', key_of(queue), item))
        end
    end
end

-- The longest delay of the queues of a host. Forgets those whose robots.txt expired long ago.
local function longest_delay(host)
    local longest, fields, gone = 0, call('HGETALL', host.key), {}
    for index = 1, #fields, 2 do
        local name = string.match(fields[index], '^k (.*)')
        if name and fields[index + 1] + RESCUE <= now then
            gone['d ' .. name] = true
            call('HDEL', host.key, 'k ' .. name, 'd ' .. name)
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

-- The robots.txt of a queue is known; without terms, another worker must fetch it.
local function note_known(queue, holds, delay, ago, opens)
    call('SREM', fetching, queue)
    if not holds then
        want(queue)
        return
    end
    local host = host_of(queue)
    -- The fetch of robots.txt was a request to the host too, after which its delay applies.
    local next_at = now + delay - ago
    if next_at > math.max(host.next_at, now) then set(host, 'next_at', next_at) end
    set(host, 'known', 1)
    call('HSET', host.key, 'k ' .. queue, now + holds)
    host.known_until[queue] = now + holds
    host.holds = math.max(host.holds or 0, holds)
    local before = call('HGET', host.key, 'd ' .. queue)
    if delay > 0 then
        call('HSET', host.key, 'd ' .. queue, delay)
    elseif before then
        call('HDEL', host.key, 'd ' .. queue)
    end
    if delay > 0 or before then
        set(host, 'delay', longest_delay(host))
    end
    call('ZREM', wanted, queue)
    if not is_empty(queue) then check_at(queue, now + opens) end
end

local function give_back(number)
    local found = call('HMGET', leases, '=' .. number, '@' .. number)
    if not found[1] then return end
    call('HDEL', leases, '=' .. number, '@' .. number)
    put_back(found[1])
    if found[2] then leave(true, found[2], 0, 0, 0) end
end

-- Requests have left the downloader.
local function leave_all(left)
    local fields = {}
    for index, each in ipairs(left) do fields[index] = '@' .. each[1] end
    if #fields == 0 then return end
    local places = call('HMGET', leases, unpack(fields))
    call('HDEL', leases, unpack(fields))
    for index, each in ipairs(left) do
        leave(places[index], each[2], each[3], each[4], each[5])
    end
end

-- The pauses that the worker does not know.
local function newer_pauses(order)
    local found = {}
    local newer = call('ZRANGEBYSCORE', pauses, '(' .. order.last_pause, '+inf', 'WITHSCORES',
        'LIMIT', 0, 100)
    for index = 1, #newer, 2 do
        local host = host_named(newer[index])
        order.last_pause = tonumber(newer[index + 1])
        if host.paused > now then
            found[#found + 1] = { host.name, host.paused - now, host.own, now - host.since }
        end
    end
    return found
end

local turn = 0.001

-- Hand out the best request of a queue, if its host is ready. If not, check the queue later.
local function hand_out(queue, order, found)
    local host = host_of(queue)
    local own = order.hosts[host.name]
    local gap = math.max(host.gap, own and own[2] or order.gap)
    -- A delay begins when a request ends, so a host with a delay gets one at a time.
    local most = host.delay > 0 and 1 or own and own[1] or order.places
    if host.places >= most and host.own == 0 then
        for _, field in ipairs({ 'places', 'paused', 'own', 'since' }) do set(host, field, 0) end
    end
    if host.places > 0 then most = math.min(most, host.places) end
    local is_known = order.all_known or is_exempt(queue) or host.known_until[queue] > now
    local is_sent = not is_refused_at(host, host.in_flight, order.wait_max)
    if not is_known then
        not_ready(queue)
        if not is_empty(queue) then call('ZADD', wanted, now, queue) end
        pass_on(host, now)
        return
    elseif is_sent and host.in_flight >= most then
        park(queue, host, now + RESCUE)
        return
    elseif is_sent and host.next_at > now then
        check_at(queue, host.next_at)
        return
    elseif is_sent and host.asked > now then
        park(queue, host, host.asked)
        return
    end
    local item = call('ZPOPMIN', key_of(queue))
    if not item[1] then
        not_ready(queue)
        pass_on(host, now)
        return
    end
    lease(queue, item[2], item[1], is_sent and host.name)
    local index = #found
    found[index + 1], found[index + 2], found[index + 3] = queue, item[1], is_sent and 1 or 0
    if not is_sent then -- It needs no place.
        if is_empty(queue) then
            not_ready(queue)
            call('LREM', prefix .. ':parked:' .. host.name, 0, queue)
        end
        return
    end
    local in_flight = host.in_flight + 1
    set(host, 'in_flight', in_flight)
    if gap > 0 then set(host, 'next_at', now + gap) end
    if is_empty(queue) then
        not_ready(queue)
        if in_flight < most then pass_on(host, now + gap) end
    elseif is_refused_at(host, in_flight, order.wait_max) then
        check_at(queue, now)
    elseif in_flight < most then
        -- After the other queues of this call.
        check_at(queue, now + gap + turn)
        turn = turn + 0.001
    else
        park(queue, host, now + RESCUE)
    end
end

-- Hand out the requests that the worker wants. Returns them, and after how long to ask again.
local function hand_out_all(order)
    local found, again = {}, 0
    if order.wanted == 0 then return found, again end
    local before = '(' .. (now + 1)
    local looks = order.wanted + LOOKS
    while looks > 0 and #found < 3 * order.wanted do
        write_due()
        local number = math.min(order.wanted - #found / 3, looks)
        local queues = call('ZRANGEBYSCORE', ready, '-inf', before, 'LIMIT', 0, number)
        if #queues == 0 then break end
        looks = looks - #queues
        -- Queues that are not ready are rescheduled, so that each is checked once.
        for _, queue in ipairs(queues) do hand_out(queue, order, found) end
    end
    write_due()
    local first = call('ZRANGE', ready, 0, 0, 'WITHSCORES')[2]
    return found, first and math.max(first - now, 0) or RESCUE
end

-- Return the queues whose robots.txt the worker is to fetch, with the delay of the host and a
-- request of each; none if enough queues are ready.
local function hand_out_wanted(order)
    local found = {}
    if order.quota <= 0 or call('ZCOUNT', ready, '-inf', now) >= order.enough then return found end
    local first = call('ZRANGEBYSCORE', wanted, '-inf', now, 'LIMIT', 0, order.quota)
    for _, queue in ipairs(first) do
        local host = host_of(queue)
        if is_empty(queue) then
            call('ZREM', wanted, queue)
        elseif order.all_known or is_exempt(queue) or host.known_until[queue] > now then
            call('ZREM', wanted, queue)
            check_at(queue, now)
        else
            call('ZADD', wanted, now + RESCUE, queue)
            call('SADD', fetching, queue)
            found[#found + 1] = { queue, host.delay, call('ZRANGE', key_of(queue), 0, 0)[1] }
        end
    end
    return found
end

local events = {}

-- What a worker has done since its last call, and what it does next.
--
-- Arguments: the order as JSON, and of each new request: queue, score, request, fingerprint. The
-- order has:
--   known    queues whose robots.txt is known, each with the terms: how long it holds, its crawl
--            delay, how long ago it was fetched, and how long until its visit time
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
-- Returns the indexes of new requests whose fingerprint is known; how many requests are not done;
-- after how long to ask again; the number of the last pause, and the new ones: host, the rest, the
-- last one that was doubled, and for how long it has lasted; of each request that is handed out:
-- queue, request after its number, 1 if it may be sent or 0 if it is to be refused; and the queues
-- whose robots.txt to fetch: queue, delay of the host, request.
function events.exchange(text, ...)
    local order, seen = cjson.decode(text), push({ ... })
    begin()
    for _, each in ipairs(order.removed) do remove(each[1], each[2]) end
    for _, each in ipairs(order.known) do note_known(unpack(each)) end
    leave_all(order.left)
    for _, number in ipairs(order.back) do give_back(number) end
    if #order.done > 0 then
        local fields = {}
        for index, number in ipairs(order.done) do fields[index] = '=' .. number end
        note_ended(call('HDEL', leases, unpack(fields)))
    end
    local new = newer_pauses(order)
    local found, again = hand_out_all(order)
    local to_fetch = hand_out_wanted(order)
    return seen, count_all(), again, order.last_pause, new, found, to_fetch
end

-- Hand out requests of a queue even if its host is not ready, because the worker refuses them.
--
-- Arguments: queue, how many. Returns the requests after their numbers, and how many are left.
function events.take(queue, most)
    begin()
    local found, items = call('ZPOPMIN', key_of(queue), most), {}
    for index = 1, #found, 2 do
        lease(queue, found[index + 1], found[index])
        items[#items + 1] = found[index]
    end
    if is_empty(queue) then
        call('ZREM', wanted, queue)
        not_ready(queue)
        call('SREM', fetching, queue)
    end
    return items, call('ZCARD', key_of(queue))
end

-- Take the only place at a host, for a request that did not come from a queue.
--
-- Arguments: number, host. Returns 1 if the worker has the place now, else 0.
function events.acquire(number, name)
    begin()
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

-- A host has answered 429 or 503: no worker sends anything to it for a while.
--
-- Arguments: host; the pause; the last pause that was doubled; the longest time that requests wait
-- for a host before they are refused.
function events.back_off(name, pause, own, wait_max)
    begin()
    local host = host_named(name)
    set(host, 'paused', math.max(now + pause, host.paused))
    if host.own == 0 then set(host, 'since', now) end
    set(host, 'own', math.max(tonumber(own), host.own, 1)) -- 0 after a success only.
    set(host, 'places', 1)
    set(host, 'next_at', math.max(host.paused, host.next_at))

    -- Each worker reads the pauses that are newer than the last one that it has read.
    local last = tonumber(call('ZREVRANGE', pauses, 0, 0, 'WITHSCORES')[2]) or 0
    call('ZADD', pauses, math.max(last + 1, now), name)
    local life = host.paused - now + REMEMBERED
    call('PEXPIRE', pauses, math.max(call('PTTL', pauses), life))

    if is_refused_at(host, host.in_flight, tonumber(wait_max)) then
        -- Its queues are checked now, for the requests to be refused.
        for _, field in ipairs(call('HKEYS', host.key)) do
            local queue = string.match(field, '^k (.*)')
            if queue then call('ZADD', ready, 'XX', now, queue) end
        end
        call('ZADD', ready, 'XX', now, name .. '\t')
    end
    return 1
end

-- Renew the lease of a worker. If another worker's lease has expired, return all it has to the
-- queue.
--
-- Arguments: duration of its lease, whether to look for an expired lease. Returns how many
-- requests returned to the queue; 1 if the worker was not registered: it is new, or its lease had
-- expired; and 1 if the requests were counted again.
function events.beat(life, looks)
    begin()
    local is_new = call('ZADD', workers, now + life, worker)
    local dead = looks == '1' and call('ZRANGEBYSCORE', workers, '-inf', now, 'LIMIT', 0, 1)[1]
    local count = dead and retire(dead, FETCHED) or 0
    return count, is_new, call('DEL', prefix .. ':recounted')
end

-- After a worker has missed an answer, return to the queue what it does not know that it has.
--
-- Arguments: the fields of the leases that it knows, and the queues whose robots.txt it fetches,
-- both as JSON.
function events.resync(fields, queues)
    begin()
    local kept, fetched_by = {}, {}
    for _, field in ipairs(cjson.decode(fields)) do kept[field] = true end
    for _, queue in ipairs(cjson.decode(queues)) do fetched_by[queue] = true end
    return return_all(worker, FETCHED, kept, fetched_by)
end

-- A worker ends: return all it has to the queue.
function events.retire()
    begin()
    return retire(worker, 0)
end

-- Return how many requests are not done.
function events.count()
    return count_all()
end

-- A worker gets nothing if it no longer waits for the answer: a server that was suspended runs
-- the calls that had arrived before. Nor if it is not registered, because it is new or its lease
-- has expired: what it got would never return to the queue if it died.
local GIVES = { exchange = true, take = true, acquire = true, resync = true }
if GIVES[event] then
    if deadline > 0 and now > deadline or not call('ZSCORE', workers, worker) then
        return { 1, now }
    end
end

-- After an error too, what was taken from a queue must be leased.
local is_done, answer = pcall(function()
    return { 0, now, events[event](unpack(ARGV, 4)) }
end)
write_all()
if is_done then return answer end
return type(answer) == 'table' and answer or { err = answer }

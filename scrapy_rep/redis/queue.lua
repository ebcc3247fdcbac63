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
--   :state         hash         mark: tells this queue from another one with the same name, and is
--                               empty while that is cleared; number: the last one that was given to
--                               anything; count: how many requests are not done
--   :ready         sorted set   hosts that have a queue with a turn -> when to check them next
--   :wanted        sorted set   queues whose robots.txt is wanted -> when to fetch it
--   :queue:QUEUE   sorted set   requests, by priority; each begins with its number
--   :host:HOST     hash         see FIELDS; QUEUE: until when its robots.txt is known, its delay, and
--                               its turn among the queues of the host; 0 if it has no requests, or
--                               its robots.txt is wanted
--   :pauses        sorted set   hosts -> the number of the last pause, or of the success after it
--   :workers       sorted set   workers -> when their leases expire
--   :leases:WORKER hash         "=NUMBER" -> request that the worker has; "@NUMBER" -> host at which
--                               that has a place; "~QUEUE": the worker fetches its robots.txt
--   :aside         sorted set   requests that some workers cannot read -> a number
--
-- Moments and durations are in milliseconds, by the clock of the server.
-- Every queue that is not empty has a turn, or is in :wanted.

local prefix = KEYS[1]
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local worker, order = ARGV[1], cjson.decode(ARGV[2])

-- A server that was suspended runs the calls that had arrived before. A worker that does not wait
-- for the answer any more gets nothing.
if now > order.deadline then return { now } end

-- The queue that the worker knows is gone: it must notice before anything changes. Another one
-- begins when all of that is deleted.
local STATE = prefix .. ':state'
local mark, count = unpack(call('HMGET', STATE, 'mark', 'count'))
if order.mark ~= '' and order.mark ~= mark then return { now, '' } end
if mark == '' then return { now } end

local ready, wanted, pauses = prefix .. ':ready', prefix .. ':wanted', prefix .. ':pauses'
local workers, aside = prefix .. ':workers', prefix .. ':aside'
local leases = prefix .. ':leases:' .. worker

-- When to check what waits for an event, in case that the event never comes.
local RESCUE = 3600 * 1000

-- For how long what is known of a host is kept after a pause, or while requests are in flight.
local KEPT = 24 * RESCUE

-- How many hosts that are not ready one call checks, and how many requests it takes to refuse.
local LOOKS = 32

-- How long a place stays reserved for a request that did not get it. Workers ask again after
-- two seconds at most.
local PATIENCE = 3000

-- What may have become of a request, if not 0, for not sent. A higher number is for a host in
-- back-off that did not ask for another pause: the number of the last pause that the worker knew
-- when it got the request. A request that was sent before the host's last pause says nothing.
local SENT = 1

-- How many requests are new, less those that are done.
local change = 0

-- Numbers grow. Return the last one of so many new ones.
local function new_number(size)
    return call('HINCRBY', STATE, 'number', size)
end

-- A request with its number, as it is stored.
local function numbered(number, request)
    return string.format('%014x', number) .. request
end
local IS_NUMBERED = '^' .. string.rep('%x', 14)

-- At most so many members of a sorted set whose numbers are greater than *last*, with these.
local function newer(key, last, most)
    last = string.format('(%.0f', last)
    return call('ZRANGEBYSCORE', key, last, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
end

-- Hosts and queues. What is known of a host is read once, and what has changed is written once.

local FIELDS = {
    'in_flight', -- the number of requests in flight
    'next_at', -- when the next request may be sent
    'gap', -- between the starts of two requests
    'asked', -- until when the place is reserved for a request that did not come from a queue

    -- Only during the back-off of a host that answered 429 or 503:
    'places', -- requests that may be in flight
    'paused', -- the end of its last pause
    'pause', -- the number of that
    'own', -- the last pause that was doubled, 0 after a success
    'since', -- the first such answer since a success
}
local hosts = {}

local function queue_of(host, name)
    host.queues[name] = host.queues[name]
        or { name = name, host = host, key = prefix .. ':queue:' .. name, holds = 0, delay = 0, turn = 0 }
    return host.queues[name]
end

-- The delay of a host, from the end of one request to the start of the next, is the longest of its
-- queues.
local function host_named(name)
    if hosts[name] then return hosts[name] end
    local host = { name = name, key = prefix .. ':host:' .. name, delay = 0, queues = {}, changed = {} }
    hosts[name] = host
    for _, field in ipairs(FIELDS) do host[field] = 0 end
    local found = call('HGETALL', host.key)
    for index = 1, #found, 2 do
        local field, value = found[index], found[index + 1]
        local holds, delay, turn = string.match(value, '^(%d+) (%d+) (%d+)$')
        if holds then
            local queue = queue_of(host, field)
            queue.holds, queue.delay, queue.turn = tonumber(holds), tonumber(delay), tonumber(turn)
            host.delay = math.max(host.delay, queue.delay)
        else
            host[field] = tonumber(value) or 0
        end
    end
    return host
end

local function queue_named(name)
    return queue_of(host_named(string.match(name, '^[^\t]*')), name)
end

local function is_empty(queue)
    return call('EXISTS', queue.key) == 0
end

local function set(host, field, value)
    host[field], host.changed[field] = value, value
end

local function set_turn(queue, turn)
    queue.turn = turn
    queue.host.changed[queue.name] = string.format('%.0f %.0f %.0f', queue.holds, queue.delay, turn)
end

-- When a host may be forgotten; nil while it has requests that may be sent.
local function ends_at(host)
    local ends = math.max(host.next_at, host.asked, host.in_flight > 0 and now + KEPT or 0)
    if host.paused > 0 then ends = math.max(ends, host.paused + KEPT) end
    for _, queue in pairs(host.queues) do
        if queue.turn > 0 then return nil end
        ends = math.max(ends, queue.holds + RESCUE)
    end
    return ends
end

local function write_hosts()
    for _, host in pairs(hosts) do
        local values = {}
        for field, value in pairs(host.changed) do
            values[#values + 1], values[#values + 2] = field, value
        end
        if #values > 0 then
            call('HSET', host.key, unpack(values))
            local ends = ends_at(host)
            if ends then call('PEXPIREAT', host.key, ends) else call('PERSIST', host.key) end
        end
    end
end

-- Whether requests of a queue may be sent, as far as robots.txt goes. It does not apply to a queue
-- without an origin.
local function is_known(queue)
    return string.sub(queue.name, -1) == '\t' or queue.holds > now
end

-- The queue of the host whose turn is next, if there is one, and the last turn.
local function next_turn(host)
    local first, last = nil, 0
    for _, queue in pairs(host.queues) do
        if queue.turn > 0 and (not first or queue.turn < first.turn) then first = queue end
        last = math.max(last, queue.turn)
    end
    return first, last
end

-- Note that a queue has no turn any more.
local function pass(queue)
    if queue.turn == 0 then return end
    set_turn(queue, 0)
    if not next_turn(queue.host) then call('ZREM', ready, queue.host.name) end
end

-- Give a queue with requests its turn, or have its robots.txt fetched.
local function arrive(queue)
    if not is_known(queue) then
        pass(queue)
        call('ZADD', wanted, 'NX', now, queue.name)
    else
        if queue.turn == 0 then
            local _, last = next_turn(queue.host)
            set_turn(queue, last + 1)
            call('ZREM', wanted, queue.name)
        end
        call('ZADD', ready, 'NX', now, queue.host.name)
    end
end

-- Whether the requests of a host are refused for its back-off, as in ``core.py``.
local function is_refused(host)
    if host.paused <= now and host.in_flight == 0 then return false end -- This one asks if it is back.
    local is_long = host.paused - now > order.wait_timeout
    return is_long or (host.own > 0 and now - host.since >= order.wait_timeout)
end

-- Check a host at *moment*, if it has a queue with a turn.
local function check_at(host, moment)
    call('ZADD', ready, 'XX', moment, host.name)
end

-- Send nothing to the host before *moment*.
local function hold(host, moment)
    if moment > math.max(host.next_at, now) then set(host, 'next_at', moment) end
end

-- Tell all workers of a pause of the host, or of the first success after it: each reads what is newer
-- than the last that it has read. Returns its number.
local function tell_all(host)
    local number = new_number(1)
    call('ZADD', pauses, number, host.name)
    local ends = host.paused + KEPT
    if call('PTTL', pauses) < ends - now then call('PEXPIREAT', pauses, ends) end
    return number
end

-- Free the place of a request that has left the downloader, if the worker with these leases has it. If
-- it was sent, the delay of the host begins. *delay* is the one that the worker knows, and *gap* that of
-- its slot, if not the default.
local function free(key, number, name, fate, gap, delay)
    local host, had = host_named(name), call('HDEL', key, '@' .. number) == 1
    if had then set(host, 'in_flight', math.max(host.in_flight - 1, 0)) end
    if fate >= SENT then hold(host, now + math.max(host.delay, delay or 0)) end
    if host.places > 0 and fate > SENT and fate >= host.pause then
        set(host, 'places', host.places + 1)
        if host.own > 0 then tell_all(host) end
        set(host, 'own', 0)
    end
    if (gap or 0) > 0 then set(host, 'gap', gap) end
    if had then check_at(host, is_refused(host) and now or math.max(host.next_at, now)) end
end

-- Leases.

-- Take the best requests of a queue for the worker, which *has_place* at their host for each. Returns
-- whether there were any.
local function take(queue, most, has_place, found)
    local items = call('ZPOPMIN', queue.key, most)
    for index = 1, #items, 2 do
        local item = items[index]
        -- One that this script has not written has no number.
        if not string.find(item, IS_NUMBERED) then item = numbered(new_number(1), item) end
        local number = string.sub(item, 1, 14)
        local lease = table.concat({ items[index + 1], queue.name, item }, '\n')
        call('HSET', leases, '=' .. number, lease)
        if has_place then call('HSET', leases, '@' .. number, queue.host.name) end
        found[#found + 1] = { lease, queue.host.delay, has_place and 1 or 0 }
    end
    return #items > 0
end

-- Put a request back into its queue, before those that were pushed later. One that is garbled is
-- gone.
local function put_back(lease)
    local score, name, item = string.match(lease, '^(.-)\n(.-)\n(.*)$')
    if not tonumber(score) then
        change = change - 1
        return
    end
    local queue = queue_named(name)
    call('ZADD', queue.key, score, item)
    arrive(queue)
end

-- Return to the queue all that a worker has, but what is in *kept*. Its hosts count as having got
-- a request if *fate* says so. Returns the number of requests.
local function return_all(name, fate, kept)
    local key, requests = prefix .. ':leases:' .. name, 0
    local all = call('HGETALL', key)
    for index = 1, #all, 2 do
        local field, value = all[index], all[index + 1]
        local kind, number = string.match(field, '^(.)(.*)$')
        if kept[field] then
            -- It is in use.
        elseif kind == '@' then
            free(key, number, value, fate)
        else
            call('HDEL', key, field)
            if kind == '=' then
                put_back(value)
                requests = requests + 1
            else -- Any worker may fetch this robots.txt.
                call('ZADD', wanted, 'XX', now, number)
            end
        end
    end
    return requests
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

-- Begin a queue. If only the state of one was lost, or whoever cleared it was killed, its requests are
-- counted, and later ones get greater numbers, by the clock.
local function begin()
    count = call('ZCARD', aside)
    for _, name in ipairs(call('ZRANGE', wanted, 0, -1)) do queue_named(name) end
    for _, name in ipairs(call('ZRANGE', ready, 0, -1)) do host_named(name) end
    for _, host in pairs(hosts) do
        for _, queue in pairs(host.queues) do count = count + call('ZCARD', queue.key) end
    end
    for _, name in ipairs(call('ZRANGE', workers, 0, -1)) do
        for _, field in ipairs(call('HKEYS', prefix .. ':leases:' .. name)) do
            if string.sub(field, 1, 1) == '=' then count = count + 1 end
        end
    end
    mark = worker .. now
    -- Numbers are greater than SENT, and than those of the queue before.
    call('HSET', STATE, 'mark', mark, 'number', now * 1000, 'count', count)
end

-- What the worker has done.

-- Add new requests, unless their fingerprints are known. Returns the indexes of those.
local function push()
    local seen, queues, size = {}, {}, (#ARGV - 2) / 4
    if size == 0 then return seen end
    local number = new_number(size) - size
    for index = 3, #ARGV, 4 do
        local queue, fingerprint = queue_named(ARGV[index]), ARGV[index + 3]
        if fingerprint ~= '' and call('SADD', KEYS[2], fingerprint) == 0 then
            seen[#seen + 1] = (index - 3) / 4
        else
            number = number + 1
            call('ZADD', queue.key, ARGV[index + 1], numbered(number, ARGV[index + 2]))
            queues[queue] = true
        end
    end
    for queue in pairs(queues) do arrive(queue) end
    change = change + size - #seen
    return seen
end

-- The worker has found out the robots.txt of a queue. *holds*: how long. It was a request to the host,
-- after which its delay applies, from now on: only this clock counts. Without these, the worker does
-- not fetch it after all: the spider closes.
local function note_rules(name, holds, delay)
    local had = call('HDEL', leases, '~' .. name) == 1
    if not holds then
        -- A worker that was taken for dead has it no more: another one may fetch it.
        if had then call('ZADD', wanted, 'XX', now, name) end
        return
    end
    local queue = queue_named(name)
    local host = queue.host
    hold(host, now + delay)
    queue.holds, queue.delay = now + holds, delay
    set_turn(queue, queue.turn)
    host.delay = 0
    for _, each in pairs(host.queues) do
        if each.turn == 0 and each.holds + RESCUE <= now then
            call('HDEL', host.key, each.name)
            host.queues[each.name], host.changed[each.name] = nil, nil
        else
            host.delay = math.max(host.delay, each.delay)
        end
    end
    call('ZREM', wanted, name)
    if not is_empty(queue) then arrive(queue) end
    check_at(host, now) -- It may have another delay now.
end

-- The worker does not use a request. If it cannot read it, *tried* are those that could not before, and
-- it is kept for the others.
local function give_back(number, tried)
    local lease, name = unpack(call('HMGET', leases, '=' .. number, '@' .. number))
    if not lease then return end
    call('HDEL', leases, '=' .. number)
    if tried then
        call('ZADD', aside, new_number(1), tried .. worker .. '\n' .. lease)
    else
        put_back(lease)
    end
    if name then free(leases, number, name, 0) end
end

-- A host has answered 429 or 503: no worker sends anything to it for a while.
local function back_off(name, pause, own)
    local host = host_named(name)
    set(host, 'paused', math.max(now + pause, host.paused))
    if host.own == 0 then set(host, 'since', now) end
    set(host, 'own', math.max(own, host.own, 1)) -- 0 after a success only.
    set(host, 'places', 1)
    set(host, 'next_at', math.max(host.paused, host.next_at))

    set(host, 'pause', tell_all(host))
    for _, each in ipairs(call('ZRANGE', pauses, 0, 7)) do
        local other = host_named(each)
        if other.paused <= now and other.own == 0 then call('ZREM', pauses, each) end
    end

    -- It is checked now, since its requests may be refused.
    check_at(host, now)
end

-- What the worker gets.

-- The pauses that the worker does not know, also those that are over. After a success, they have
-- lasted for 0.
local function newer_pauses()
    local found, names = {}, newer(pauses, order.last_pause, 100)
    for index = 1, #names, 2 do
        local host = host_named(names[index])
        order.last_pause = tonumber(names[index + 1])
        local lasted = (host.paused > now or host.own > 0) and now - host.since or 0
        found[#found + 1] = { host.name, host.paused - now, host.own, lasted }
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

-- Hand out requests of a queue even if its host is not ready, because the worker refuses them. They leave
-- at least half of the room to others.
local function hand_out_refused(name, found)
    local queue = queue_named(name)
    take(queue, order.wanted > 0 and math.ceil(order.wanted / 2) or LOOKS, false, found)
    if is_empty(queue) and call('HDEL', leases, '~' .. name) == 1 then call('ZREM', wanted, name) end
end

-- After the other hosts of this call.
local later = 0

-- Hand out the best request of the queue whose turn it is, if the host is ready. If not, check the
-- host later.
local function hand_out(host, found)
    local queue, last = next_turn(host)
    if not queue then return call('ZREM', ready, host.name) end
    if not is_known(queue) then return arrive(queue) end
    local own = order.hosts[host.name]
    local gap = math.max(host.gap, own and own[2] or order.gap)
    -- A delay begins when a request ends, so a host with a delay gets one at a time.
    local most = host.delay > 0 and 1 or own and own[1] or order.limit
    if host.places >= most and host.own == 0 then set(host, 'places', 0) end
    if host.places > 0 then most = math.min(most, host.places) end
    if is_refused(host) then -- It needs no place.
        take(queue, 1, false, found)
    elseif host.in_flight >= most then
        return check_at(host, now + RESCUE)
    elseif math.max(host.next_at, host.asked) > now then
        return check_at(host, math.max(host.next_at, host.asked))
    elseif take(queue, 1, true, found) then
        set(host, 'in_flight', host.in_flight + 1)
        if gap > 0 then set(host, 'next_at', now + gap) end
        later = later + 0.001
        check_at(host, now + gap + later)
    end
    if is_empty(queue) then
        pass(queue)
    elseif queue.turn < last then
        set_turn(queue, last + 1)
    end
end

-- Hand out requests that other workers could not read, without a place.
local function hand_out_aside(found)
    local items = order.wanted > 0 and newer(aside, order.last_aside, order.wanted) or {}
    for index = 1, #items, 2 do
        local item = items[index]
        local tried, lease = string.match(item, '^(%w*)\n(.*)$')
        local number = string.match(lease or '', '^.-\n.-\n(' .. string.rep('%x', 14) .. ')')
        order.last_aside = tonumber(items[index + 1])
        if number and not string.find(tried, worker, 1, true) then
            call('ZREM', aside, item)
            call('HSET', leases, '=' .. number, lease)
            found[#found + 1] = { lease, 0, 0, tried }
        end
    end
end

-- Hand out the requests that the worker wants. Returns after how long to ask again.
local function hand_out_all(found)
    if order.wanted == 0 then return RESCUE end
    local looks = order.wanted + LOOKS
    while looks > 0 and #found < order.wanted do
        local most = math.min(order.wanted - #found, looks)
        local names = call('ZRANGEBYSCORE', ready, '-inf', '(' .. now + 1, 'LIMIT', 0, most)
        if #names == 0 then break end
        looks = looks - #names
        -- Hosts that are not ready are rescheduled, so that each is checked once.
        for _, name in ipairs(names) do hand_out(host_named(name), found) end
    end
    if #found > 0 then return 0 end
    local first = call('ZRANGE', ready, 0, 0, 'WITHSCORES')[2]
    return first and math.max(first - now, 0) or RESCUE
end

-- Return the queues whose robots.txt the worker is to fetch, with a request of each, and the delay
-- of its host; none if enough hosts are ready.
local function hand_out_wanted()
    local found = {}
    if order.quota <= 0 then return found end
    local queues = call('ZRANGEBYSCORE', wanted, '-inf', now, 'LIMIT', 0, order.quota)
    if #queues == 0 or call('ZCOUNT', ready, '-inf', now) >= order.enough then return found end
    for _, name in ipairs(queues) do
        local queue = queue_named(name)
        local item = call('ZRANGE', queue.key, 0, 0)[1]
        if not item then
            call('ZREM', wanted, name)
        elseif is_known(queue) then
            arrive(queue)
        else
            call('ZADD', wanted, now + RESCUE, name)
            call('HSET', leases, '~' .. name, '')
            found[#found + 1] = { table.concat({ 0, name, item }, '\n'), queue.host.delay }
        end
    end
    return found
end

-- The order of a worker has:
--   deadline   when the worker no longer waits for the answer
--   mark       the mark of the queue that the worker knows, or "". If the queue has another one
--              now, or none, the worker gets the time and "" alone
--   lease      for how long its lease is renewed
--   rules      the arguments of *note_rules*, for each queue whose robots.txt it was to fetch
--   left       requests that have left the downloader: number, host, and the arguments of *free*
--   done       numbers of requests whose callbacks have ended
--   back       requests that the worker does not use: number, and the workers that could not read
--              it, if this one cannot either
--   paused     hosts that have asked for a pause: host, the pause, the last one that was doubled
--   has        only after a lost answer: the fields of its leases, as the names of an object. All else
--              returns to the queue
--   retires    whether the worker ends: all it has returns to the queue
--   refuses    a queue whose requests it refuses, or nothing
--   acquire    the number and the host of a request that is not from the queue, or nothing
--   wanted     how many requests to hand out at most
--   limit, gap, hosts    the limits of a host without a crawl delay, and those of some hosts
--   wait_timeout   the longest time that requests wait for a host
--   last_pause the number of the last pause that the worker knows
--   last_aside the number of the last request that was set aside, as far as it knows
--   quota, enough  how many robots.txt the worker can fetch, and how many ready hosts are enough
--
-- Returns the time; the mark of the queue; the indexes of new requests whose fingerprint is known; how
-- many requests are not done, but those that were set aside and that it could not read; 1 if the
-- worker is new, and how many requests returned from a dead one; 1 if it has acquired the place; after
-- how long to ask again; the number of the last request that was set aside, and how many are, if the
-- worker ends; the number of the last pause, and the new ones: host, the rest, the last one that was
-- doubled, and for how long it has lasted; the requests that it gets: each with the delay of its host,
-- with 1 if it has a place and may be sent, and with the workers that could not read it; and those whose
-- robots.txt to fetch, with the delay. A request is "SCORE<newline>QUEUE<newline>NUMBER", and what was pushed; like that it is also
-- leased.

-- A server that is out of memory refuses a script whose first write needs memory, such as that of
-- new requests: then nothing of the call has happened. All else must still work.
if #ARGV == 2 then call('DEL', prefix .. ':none') end
if not mark and not order.retires then begin() end
local seen, found = push(), {}
local is_new, returned = renew()
for _, each in ipairs(order.rules) do note_rules(unpack(each)) end
for _, each in ipairs(order.left) do free(leases, unpack(each)) end
for _, each in ipairs(order.back) do give_back(unpack(each)) end
for _, each in ipairs(order.done) do change = change - call('HDEL', leases, '=' .. each) end
for _, each in ipairs(order.paused) do back_off(unpack(each)) end
if order.has or order.retires then
    return_all(worker, order.has and SENT or 0, not order.retires and order.has or {})
end
if order.retires then call('ZREM', workers, worker) end
local new = newer_pauses()
local has_place = order.acquire and acquire(unpack(order.acquire)) or 0
if order.refuses then hand_out_refused(order.refuses, found) end
local again = hand_out_all(found)
hand_out_aside(found)
local to_fetch = hand_out_wanted()
write_hosts()
if change ~= 0 then count = call('HINCRBY', STATE, 'count', change) end
local seen_aside = call('ZCOUNT', aside, '-inf', string.format('%.0f', order.last_aside))
return { now, mark or '', seen, (count or 0) - seen_aside, is_new, returned, has_place, again, order.last_aside,
    order.retires and call('ZCARD', aside) or 0, order.last_pause, new, found, to_fetch }

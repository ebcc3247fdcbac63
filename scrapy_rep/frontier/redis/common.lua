-- The start of every script of the queue: the keys, and common functions.
--
-- KEYS[1] is the prefix of all keys. It is a hash tag, so that in a Redis Cluster all keys are
-- on one server. A *queue* holds the requests to one origin, and is named "HOST<tab>ORIGIN".
-- Delays and limits apply to its host. A *place* at a host is the right to have one request to
-- it in flight. A worker holds *leases* of requests and places, until its own lease expires.
--
--   :ready         sorted set   queues whose robots.txt is known -> when to check them next
--   :unknown       sorted set   queues whose robots.txt is not known -> when to check them
--   :queue:QUEUE   sorted set   requests, by priority; each begins with its number
--   :host:HOST     hash         out: number of requests in flight; free: when the next one
--                               may be sent; gap: between the starts of two requests;
--                               delay: from the end of one request to the start of the
--                               next; "k QUEUE": until when its robots.txt is known;
--                               "d QUEUE": its crawl delay; known: set if the robots.txt of
--                               any queue is known; parked: set if queues are parked;
--                               asked: until when the place is reserved for a request that
--                               did not come from a queue. During the back-off of a host
--                               that answered 429 or 503: paused: the end of its last pause;
--                               places: requests that may be in flight; own: the last pause
--                               that was doubled, 0 after a success; since: the first such
--                               answer since a success
--   :pauses        sorted set   hosts -> a number that grows with each pause
--   :parked:HOST   list         queues that wait until a request to their host ends
--   :workers       sorted set   workers -> when their leases expire
--   :leases:WORKER hash         "=NUMBER" -> request that the worker has; "@NUMBER" -> host
--                               at which that request has a place
--   :learning:WORKER set        queues whose robots.txt the worker fetches
--   :number, :ended             the number of the last request that was pushed; and that, less
--                               the count of requests that are not done
--   :recounted                  set if requests were counted again, until a worker has logged it
--
-- Moments and durations are in milliseconds, by the clock of the server.
-- Every queue that is not empty is in :ready or in :unknown.

local prefix = KEYS[1]
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A server that is out of memory refuses the writes of a script, unless the first one needs no
-- memory. Workers must still be able to take requests out.
local function begin()
    call('DEL', prefix .. ':none')
end

-- Whether the worker no longer waits for the answer. A server that was suspended runs the
-- calls that had arrived before.
local function is_late(deadline)
    deadline = tonumber(deadline)
    return deadline > 0 and now > deadline
end

-- Whether a worker is not registered: it is new, or its lease has expired, and another worker
-- has returned all it had to the queue.
local function is_dead(worker)
    return not call('ZSCORE', prefix .. ':workers', worker)
end

-- Whether a worker must get nothing now, because its call is late, or it is not registered:
-- then what it gets would never return to the queue if it died. It must send a heartbeat first.
local function is_refused(worker, deadline)
    return is_late(deadline) or is_dead(worker)
end

-- When to check a queue that waits for an event, in case that the event never comes.
local RESCUE = 3600 * 1000

-- How many queues that are not ready one call checks.
local LOOKS = 32

-- How long a place stays reserved for a request that did not get it. Workers ask again after
-- two seconds at most.
local PATIENCE = 3000

-- How long after a pause the crawl remembers that a host has asked for it.
local REMEMBERED = 600 * 1000

-- Whether the requests of a host in back-off are refused, as in ``core.py``: *out* are in flight.
local function is_refused_for(state, out, wait_max)
    local paused = tonumber(state.paused) or 0
    if paused <= now and out == 0 then return false end -- This request asks whether it is back.
    local is_over = tonumber(state.own) == 0
    return paused - now > wait_max or (not is_over and now - state.since >= wait_max)
end

local function host_of(queue)
    return string.match(queue, '^[^\t]*')
end

-- Whether robots.txt does not apply to the requests of a queue.
local function is_exempt(queue)
    return string.sub(queue, -1) == '\t'
end

local function key_of(queue)
    return prefix .. ':queue:' .. queue
end

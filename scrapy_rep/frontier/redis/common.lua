-- What all scripts of the queue begin with.
--
-- KEYS[1] is the prefix of all keys, which is a hash tag: in a Redis Cluster they are on
-- one server. A *queue* is the requests to an origin, named "HOST<tab>ORIGIN". Its host is
-- what delays and limits are counted by.
--
--   :ready         sorted set   queues whose robots.txt is known -> when to look at them
--   :unknown       sorted set   queues whose robots.txt is not known -> the same
--   :queue:QUEUE   sorted set   requests, by priority; each begins with its number
--   :host:HOST     hash         out: requests under way; free: when the next one may go;
--                               gap, delay: between the starts of two requests, and from
--                               the end of one to the start of the next; "k QUEUE": until
--                               when its robots.txt is known; "d QUEUE": the delay it asks
--                               for; known: whether that of any queue is; parked: whether
--                               queues are; asked: until when its place is kept for a
--                               request that no queue has handed out
--   :parked:HOST   list         queues that wait for a request of their host to end
--   :workers       sorted set   workers -> when they are taken for dead
--   :leases:WORKER hash         "=NUMBER" -> request that the worker has; "@NUMBER" -> host
--                               at which that has a place
--   :learning:WORKER set        queues whose robots.txt the worker is getting
--   :number, :ended             how many requests there were, which are numbered; and how
--                               many of them are done
--
-- Moments and durations are in milliseconds, by the clock of the server.
-- Every queue that is not empty is in :ready or in :unknown.

local prefix = KEYS[1]
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A server that is out of memory lets a script write that has begun with a command which
-- takes none: requests must be able to leave.
local function begin()
    call('DEL', prefix .. ':none')
end

-- Whether the caller has stopped waiting for the answer: a server that was suspended runs
-- what had arrived before.
local function is_late(deadline)
    deadline = tonumber(deadline)
    return deadline > 0 and now > deadline
end

-- Whether a worker is taken for dead.
local function is_dead(worker)
    return not call('ZSCORE', prefix .. ':workers', worker)
end

-- Whether a worker is to get nothing now: its call is late, or it is taken for dead, so
-- that nobody would miss it if it died with what it gets. It is to say that it lives.
local function is_refused(worker, deadline)
    return is_late(deadline) or is_dead(worker)
end

-- Where something else should happen before, and nothing is known of when.
local RESCUE = 3600 * 1000

-- For so long a place is kept for those who have asked for it, and ask again after two
-- seconds at most.
local PATIENCE = 3000

local function host_of(queue)
    return string.match(queue, '^[^\t]*')
end

-- Whether robots.txt has no say in the requests of a queue.
local function is_exempt(queue)
    return string.sub(queue, -1) == '\t'
end

local function key_of(queue)
    return prefix .. ':queue:' .. queue
end

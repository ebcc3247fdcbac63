-- The queue that the workers of a crawl share. A host belongs to one worker, which takes its requests in
-- batches. Each call of this script tells what one worker has done, and returns what it wants next. A call is
-- executed as a whole.
--
-- KEYS: the prefix of all keys, a hash tag, so that a Redis Cluster keeps them on one node; the set of
-- fingerprints; the key of a queue of scrapy-redis itself. ARGV: the worker; its order, as JSON (see the end of
-- this file); and the data of each new request.
--
-- A "host" is the name of a download slot, which nearly always is that of a host.
--
--   :state           hash   mark: tells this queue from an earlier one; number: the last one that a request got;
--                           count: the requests that are not done
-- and, after the mark:
--   :queue:HOST      zset   requests by score; each begins with its number (14 hex digits)
--   :host:HOST       hash   owner; next_at, paused (until); delay, sent, reserved_for, reserved_until: see
--                           acquire(); own_pause, concurrency, since: the back-off, for the next owner
--   :free            zset   hosts with requests and without an owner -> when they may be sent to
--   :workers         zset   workers -> when their leases end
--   :calls           hash   worker -> the number of its last call
--   :owned:WORKER    set    its hosts
--   :taken:WORKER    hash   number -> host, score and request, a line each: a lease
--   :permits:WORKER  hash   token -> host
--   :news:WORKER     hash   its hosts that have requests again, or that must pause -> the end of the pause, or ""
--   :aside           zset   leases of requests that a worker could not read -> a number
--   :pages           hash   host name -> how many of its pages are done, if that is limited
--
-- All times are in seconds, by the clock of this server.

local prefix, SEEN, worker, order = KEYS[1], KEYS[2], ARGV[1], cjson.decode(ARGV[2])
local call, time = redis.call, redis.call('TIME')
local now = time[1] + time[2] / 1e6

-- What is given back goes before all others, by this much of their scores.
local FRONT = 2 ^ 50
-- Greater than each number; still exact.
local LAST = 2 ^ 53 - 1
-- What is known of a host without requests and without an owner is kept for so long.
local KEPT = 3600
-- A permit that was refused stays reserved for so long. The least time before it is asked for again.
local PATIENCE, ASK_AGAIN = 3, 0.1
-- For so long after a pause, a worker that has not heard of it sends one request at a time.
local RECOVERS = 30

-- The queue of a worker that is gone: it must notice before anything changes.
local STATE = prefix .. ':state'
local mark = call('HGET', STATE, 'mark') or ''
if order.mark ~= '' and order.mark ~= mark then return { 'lost' } end
local is_first = mark == ''
if is_first then mark = string.format('%.0f-', now * 1e6) .. string.sub(worker, 1, 6) end

local base = prefix .. ':' .. mark .. ':'
local function key(kind, name) return base .. kind .. ':' .. name end
local FREE, WORKERS, CALLS, ASIDE, PAGES = base .. 'free', base .. 'workers', base .. 'calls', base .. 'aside', base .. 'pages'
local TAKEN, OWNED, NEWS, PERMITS = key('taken', worker), key('owned', worker), key('news', worker), key('permits', worker)

-- A call that the worker has given up, and that comes late, changes nothing.
local last_call = tonumber(call('HGET', CALLS, worker) or 0)
if order.call <= last_call then return { 'late' } end
-- Whether the reports of this call were executed, but the answer did not arrive.
local is_repeated = last_call > order.last_answer
-- Whether others have taken over what the worker had, or the server has older data than the worker.
local has_lost = last_call < order.last_answer
-- An error later on would leave half of a call: a key of another type is noticed now.
if order.call == 1 then call('SCARD', SEEN) end

-- A server that is out of memory refuses a script whose first write needs memory. Only new requests may fail.
if #order.new == 0 then call('DEL', prefix .. ':none') end
if is_first then call('HSET', STATE, 'mark', mark) end

-- Greater than all numbers so far, even if the server has lost the last ones.
local number = math.max(tonumber(call('HGET', STATE, 'number') or 0), math.floor(now * 1e6))
local function new_number()
    number = number + 1
    return number
end

-- Hosts.

local function numbers_of(host, ...)
    local values = call('HMGET', key('host', host), ...)
    for index = 1, select('#', ...) do values[index] = tonumber(values[index] or 0) or 0 end
    return unpack(values)
end

-- Forget a host some time after its last pause, unless it has requests or an owner.
local function forget_later(host)
    local next_at, paused, sent = numbers_of(host, 'next_at', 'paused', 'sent')
    if sent <= 0 and call('HEXISTS', key('host', host), 'owner') + call('EXISTS', key('queue', host)) == 0 then
        call('EXPIREAT', key('host', host), string.format('%.0f', math.max(now, next_at, paused) + KEPT))
    end
end

-- Let any worker take a host.
local function set_free(host)
    call('HDEL', key('host', host), 'owner')
    if call('EXISTS', key('queue', host)) == 1 then
        call('ZADD', FREE, math.max(now, numbers_of(host, 'next_at', 'paused')), host)
    else
        call('ZREM', FREE, host)
        forget_later(host)
    end
end

-- Send nothing to a host before a moment.
local function hold(host, field, moment)
    if moment > math.max(now, (numbers_of(host, field))) then
        call('HSET', key('host', host), field, moment)
        call('ZADD', FREE, 'XX', 'GT', moment, host)
    end
end

local function release(name, token, seconds_ago, was_sent)
    local host = call('HGET', key('permits', name), token)
    if not host then return end
    call('HDEL', key('permits', name), token)
    call('HINCRBY', key('host', host), 'sent', -1)
    if was_sent then hold(host, 'next_at', now - seconds_ago + (numbers_of(host, 'delay'))) end
    forget_later(host)
end

-- Requests.

-- Add requests, each as its score and what is stored, to the queue of a host.
local function add(host, ...)
    local queue = key('queue', host)
    local was_empty = call('EXISTS', queue) == 0
    call('ZADD', queue, ...)
    if not was_empty then return end
    local owner = call('HGET', key('host', host), 'owner')
    if owner then
        call('HSETNX', key('news', owner), host, '')
    else
        call('PERSIST', key('host', host))
        set_free(host)
    end
end

local function parts_of(lease) return string.match(lease or '', '^(.-)\n(.-)\n(.*)$') end

-- Return a request that a worker has taken to the front of its queue.
local function put_back(name, id)
    local host, score, item = parts_of(call('HGET', key('taken', name), id))
    if not host then return end
    call('HDEL', key('taken', name), id)
    score = tonumber(score) or 0
    add(host, score > -FRONT / 2 and score - FRONT or score, item)
end

-- Let others take a host that a worker owns.
local function disown(name, host)
    call('SREM', key('owned', name), host)
    call('HDEL', key('news', name), host)
    set_free(host)
end

-- Return all that a worker has, but what is *kept*. Returns the number of requests.
local function return_all(name, kept)
    local count = 0
    for _, host in ipairs(call('SMEMBERS', key('owned', name))) do
        if not kept[host] then disown(name, host) end
    end
    for _, id in ipairs(call('HKEYS', key('taken', name))) do
        if not kept[id] then
            put_back(name, id)
            count = count + 1
        end
    end
    for _, token in ipairs(call('HKEYS', key('permits', name))) do
        if not kept[token] then release(name, token, 0, true) end
    end
    return count
end

local function forget_worker(name)
    call('ZREM', WORKERS, name)
    call('HDEL', CALLS, name)
    call('DEL', key('news', name))
end

-- Who is alive.

local answer = {
    seen = {}, permits = {}, deliveries = {}, hosts = {}, pauses = {}, pages = {},
    has_lost = has_lost, returned = 0, strange = 0,
}
call('HSET', CALLS, worker, order.call)
call('ZADD', WORKERS, now + order.lease, worker)
for _, name in ipairs(call('ZRANGEBYSCORE', WORKERS, '-inf', now, 'LIMIT', 0, 1)) do
    answer.returned = return_all(name, {})
    forget_worker(name)
end

-- What the worker has done.

local change, new = 0, {}
if not is_repeated then
    for index, request in ipairs(order.new) do
        local host, score, is_last_first, fingerprint = unpack(request)
        if fingerprint ~= '' and call('SADD', SEEN, fingerprint) == 0 then
            answer.seen[#answer.seen + 1] = index - 1
        else
            local position = is_last_first and LAST - new_number() or new_number()
            local items = new[host] or {}
            new[host], items[#items + 1] = items, score
            items[#items + 1] = string.format('%014x', position) .. ARGV[index + 2]
            change = change + 1
        end
    end
    for host, items in pairs(new) do add(host, unpack(items)) end
    for index = 1, #order.done, 1000 do
        change = change - call('HDEL', TAKEN, unpack(order.done, index, math.min(index + 999, #order.done)))
    end
    for _, id in ipairs(order.back) do put_back(worker, id) end
    for _, id in ipairs(order.unreadable) do
        local lease = call('HGET', TAKEN, id)
        if lease and call('HDEL', TAKEN, id) == 1 then call('ZADD', ASIDE, new_number(), lease) end
    end
    for _, host in ipairs(order.pages) do answer.pages[#answer.pages + 1] = { host, call('HINCRBY', PAGES, host, 1) } end
    for _, permit in ipairs(order.released) do release(worker, unpack(permit)) end
    for _, pause in ipairs(order.paused) do
        local host, owner = pause[1], call('HGET', key('host', pause[1]), 'owner')
        hold(host, 'paused', now + pause[2])
        -- For the next owner, unless a worker gives it back that knows better.
        call('HSET', key('host', host), 'concurrency', 1, 'since', 0)
        if owner and owner ~= worker then call('HSET', key('news', owner), host, now + pause[2]) end
        forget_later(host)
    end
    for _, left in ipairs(order.left) do
        local host, next_in, own_pause, concurrency, lasted = unpack(left)
        if call('SISMEMBER', OWNED, host) == 1 then
            call('HSET', key('host', host), 'own_pause', own_pause, 'concurrency', concurrency, 'since', now - lasted)
            hold(host, 'next_at', now + next_in)
            disown(worker, host)
        end
    end
end
if has_lost or order.has or order.retires then
    local kept = {}
    for _, name in ipairs(order.has or {}) do kept[name] = not has_lost and not order.retires end
    return_all(worker, kept)
end

-- What it gets.

local delivered = {}

-- Deliver the best requests of a host. Returns how many it had.
local function take(host, most)
    local items, scores, leases = call('ZPOPMIN', key('queue', host), most), {}, {}
    for index = 1, #items, 2 do
        local item, score = items[index], items[index + 1]
        leases[index], leases[index + 1] = string.sub(item, 1, 14), host .. '\n' .. score .. '\n' .. item
        delivered[#delivered + 1], scores[#scores + 1] = item, score
    end
    if #items > 0 then call('HSET', TAKEN, unpack(leases)) end
    local left = call('ZCARD', key('queue', host))
    answer.deliveries[#answer.deliveries + 1] = { host, left, scores }
    return #scores + left
end

-- Let the worker send a request to a host that has no pause; with a *limit*, if fewer are in flight to it, and
-- the *delay* of the last one is over. A worker that knows of no delay or back-off keeps those of the others. The
-- next permit is for the worker that was refused first. Returns the token; the seconds after which to ask again, 0
-- if it is granted; and the seconds of a pause.
local function acquire(token, host, limit, delay)
    local name = key('host', host)
    if delay == 0 then delay = (numbers_of(host, 'delay')) end
    if delay > 0 then limit = 1 end
    local next_at, paused, sent, reserved_until = numbers_of(host, 'next_at', 'paused', 'sent', 'reserved_until')
    if limit == 0 and (sent > 0 or now < paused + RECOVERS) then limit = 1 end
    local is_for_other = reserved_until > now and call('HGET', name, 'reserved_for') ~= worker
    local wait = paused - now
    if limit > 0 then
        if delay > 0 then wait = math.max(wait, next_at - now) end
        if wait <= 0 and sent >= limit then wait = math.max(delay, ASK_AGAIN) end
        if wait <= 0 and is_for_other then wait = ASK_AGAIN end
    end
    if wait > 0 then
        if limit > 0 and not is_for_other then
            call('HSET', name, 'reserved_for', worker, 'reserved_until', now + wait + PATIENCE)
        end
    elseif limit > 0 then
        call('HDEL', name, 'reserved_for', 'reserved_until')
        call('HSET', name, 'delay', delay)
        call('HINCRBY', name, 'sent', 1)
        call('PERSIST', name)
        call('HSET', PERMITS, token, host)
    end
    forget_later(host)
    return { token, math.max(wait, 0), math.max(paused - now, 0) }
end

local unread = {}
if order.retires then
    forget_worker(worker)
elseif not has_lost then
    for index, permit in ipairs(order.permits) do answer.permits[index] = acquire(unpack(permit)) end
    local news = call('HGETALL', NEWS)
    for index = 1, #news, 2 do
        local host, paused = news[index], tonumber(news[index + 1]) or 0
        if paused > now then answer.pauses[#answer.pauses + 1] = { host, paused - now } end
        take(host, order.batch)
    end
    call('DEL', NEWS)
    for _, more in ipairs(order.more) do
        if call('SISMEMBER', OWNED, more[1]) == 1 then take(unpack(more)) end
    end
    -- No more than its share of the free hosts: others may have nothing to do.
    local share = math.ceil(call('ZCOUNT', FREE, '-inf', now) / call('ZCARD', WORKERS))
    for _, host in ipairs(call('ZRANGEBYSCORE', FREE, '-inf', now, 'LIMIT', 0, math.min(order.room, share))) do
        if order.room <= 0 then break end
        call('ZREM', FREE, host)
        call('HSET', key('host', host), 'owner', worker)
        call('SADD', OWNED, host)
        local own_pause, concurrency, since = numbers_of(host, 'own_pause', 'concurrency', 'since')
        answer.hosts[#answer.hosts + 1] = { host, own_pause, concurrency, now - (since > 0 and since or now) }
        answer.pages[#answer.pages + 1] = { host, tonumber(call('HGET', PAGES, host) or 0) }
        order.room = order.room - math.min(take(host, order.batch), order.concurrency)
    end
    -- Requests that others could not read: the worker tries them, and then takes those that it can.
    for _, place in ipairs(order.readable) do
        local lease = call('ZRANGEBYSCORE', ASIDE, place, place)[1]
        local host, score, item = parts_of(lease)
        if host then
            call('ZREM', ASIDE, lease)
            call('HSET', TAKEN, string.sub(item, 1, 14), lease)
            delivered[#delivered + 1] = item
            answer.deliveries[#answer.deliveries + 1] = { host, call('ZCARD', key('queue', host)), { score } }
        end
    end
    unread = call('ZRANGEBYSCORE', ASIDE, '(' .. order.last_aside, '+inf', 'WITHSCORES', 'LIMIT', 0, 50)
end

local count = call('HINCRBY', STATE, 'count', change)
call('HSET', STATE, 'number', string.format('%.0f', number))
if order.clears and (count > 0 or call('ZCARD', WORKERS) == 0) then call('UNLINK', STATE, SEEN, KEYS[3], PAGES) end
if order.call == 1 then
    local kind = call('TYPE', KEYS[3]).ok
    answer.strange = kind == 'zset' and call('ZCARD', KEYS[3]) or kind == 'list' and call('LLEN', KEYS[3]) or 0
end
answer.remaining = count - call('ZCOUNT', ASIDE, '-inf', order.last_aside)
answer.set_aside = call('ZCARD', ASIDE)
return { mark, cjson.encode(answer), delivered, unread }

-- The order of a worker has:
--   mark                  that of the queue that it knows, or ""
--   call, last_answer     the number of this call, and that of the last one whose answer has arrived: all later ones
--                         have the same reports
--   lease                 for how long its lease is renewed
--   new                   of each new request: host, score, whether the last one is first, fingerprint
--   done, back, unreadable   requests whose callbacks have ended, that it does not use, and cannot read
--   pages                 the host of each page that is done
--   released              permits: token, seconds since the end of the request, whether that was sent
--   paused                hosts that have asked for a pause: host, seconds
--   left                  hosts that it gives back: host, seconds until its next request, own_pause, concurrency, and
--                         for how many seconds the back-off has lasted
--   has                   only after a lost answer: its requests, hosts and permits. All others return
--   retires, clears       whether it ends, and whether the queue is to be deleted then
--   permits               what it wants to send: the arguments of acquire()
--   more, batch           how many requests of which hosts, and how many of a new one
--   room, concurrency     for how many requests it wants hosts, and how many of a host may be in flight
--   readable, last_aside  requests that others could not read: those that it can, by their places, and the last place
--                         that it has tried
--
-- The answer is the mark, or "lost" if the queue of the worker is gone, or "late" for a late call; a JSON object; the
-- requests that are delivered; and the leases of requests that others could not read, each with its place. The object
-- has:
--   seen                  the indexes of new requests whose fingerprint is known
--   remaining, set_aside  how many requests are not done, but those that were set aside and that the worker has
--                         tried; and how many are set aside
--   has_lost              whether others have what the worker had
--   returned              how many requests have returned from a dead worker
--   strange               in the first answer: how many requests a queue of scrapy-redis itself has
--   permits               what acquire() returns
--   deliveries            host, how many of its requests are left here, and the score of each one that is delivered
--   hosts                 what it owns from now on: host, own_pause, concurrency, and since how many seconds
--   pauses                hosts of the worker that have asked others for a pause: host, seconds
--   pages                 host names, and how many of their pages are done

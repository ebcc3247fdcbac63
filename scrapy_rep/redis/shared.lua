-- The queue that all workers of a crawl share. A host belongs to one worker at a time, its owner, which takes the
-- host's requests in batches. In each call of this script, one worker reports the requests that are done, and gets
-- new hosts, requests and permits. Redis executes each call as a whole.
--
-- KEYS: (1) the prefix of all keys, which is a hash tag, so that a Redis Cluster keeps the keys on one node; (2)
-- the set of fingerprints; (3) the key under which a queue class of scrapy-redis stores requests. ARGV: (1) the
-- worker's name; (2) what it reports and asks for (its order), as JSON, described at the end of this file; (3 ...) the
-- data of each new request, in serialised form.
--
-- A "host" is the name of a download slot, which usually is a host name.
--
-- After the prefix, the keys are:
--   :state           hash   mark: the identifier of this queue, different for each queue with this name;
--                           number: the last number that a request got; count: the number of requests that are not
--                           done
-- and after the prefix and the mark:
--   :queue:HOST      zset   requests by score; each begins with its number (14 hex digits)
--   :host:HOST       hash   owner; next_at: the earliest time of the next request; paused: the end of the
--                           pause; delay, sent, reserved_for, reserved_until: see acquire(); own_pause, concurrency,
--                           since: the back-off, for the next owner
--   :free            zset   hosts with requests and without an owner -> the earliest time of the next request
--   :workers         zset   workers -> the ends of their leases
--   :calls           hash   worker -> the number of its last call
--   :owned:WORKER    set    the worker's hosts
--   :taken:WORKER    hash   number of a taken request -> its lease: host, score and request, one per line
--   :permits:WORKER  hash   token -> host
--   :news:WORKER     hash   the worker's hosts with new requests or a new pause -> the end of the pause, or ""
--   :aside           zset   requests that a worker took but could not deserialise (they are set aside), each as its
--                           lease -> a number that orders them, the "place"
--   :pages           hash   host name -> the number of its pages that are done, if that number is limited
--
-- All times are in seconds of this server's clock.

local prefix, SEEN, worker, order = KEYS[1], KEYS[2], ARGV[1], cjson.decode(ARGV[2])
local call, time = redis.call, redis.call('TIME')
local now = time[1] + time[2] / 1e6

-- This number is subtracted from the score of a request that is given back, so that it comes before all others.
local FRONT = 2 ^ 50
-- The largest integer that is exact. It is greater than the number of any request.
local LAST = 2 ^ 53 - 1
-- The data of a host without requests, permits and owner expires this many seconds after its last pause or delay.
local KEPT = 3600
-- After a refusal, the next permit stays reserved for the refused worker until PATIENCE seconds after the time at which
-- the worker should request it again. ASK_AGAIN is the minimum number of seconds before that time.
local PATIENCE, ASK_AGAIN = 3, 0.1
-- For this many seconds after a pause, a worker that does not know of the pause sends one request at a time.
local RECOVERS = 30

-- If the worker's queue no longer exists, the script ends here and tells the worker, before it changes anything.
local STATE = prefix .. ':state'
local mark = call('HGET', STATE, 'mark') or ''
if order.mark ~= '' and order.mark ~= mark then return { 'lost' } end
local is_first = mark == ''
if is_first then mark = string.format('%.0f-', now * 1e6) .. string.sub(worker, 1, 6) end

local base = prefix .. ':' .. mark .. ':'
local function key(kind, name) return base .. kind .. ':' .. name end
local FREE, WORKERS, CALLS, ASIDE, PAGES = base .. 'free', base .. 'workers', base .. 'calls', base .. 'aside', base .. 'pages'
local TAKEN, OWNED, NEWS, PERMITS = key('taken', worker), key('owned', worker), key('news', worker), key('permits', worker)

-- A call changes nothing if it arrives after a later call of the same worker.
local last_call = tonumber(call('HGET', CALLS, worker) or 0)
if order.call <= last_call then return { 'late' } end
-- Whether an earlier call already executed the reports of this call, but the answer did not arrive.
local is_repeated = last_call > order.last_answer
-- Whether other workers took over this worker's hosts and requests, or the server was restored from older data.
local has_lost = last_call < order.last_answer
-- If the key of the fingerprints has another type, raise the error now. Later, it would leave the call half
-- executed.
if order.call == 1 then call('SCARD', SEEN) end

-- A server that has no memory left refuses a script if its first write needs memory. DEL needs none. So if the first
-- write is a DEL, the server executes the script. This is done for calls that free at least as many requests as they
-- add. Calls that add more requests than they free are refused.
if #order.new <= #order.done then call('DEL', prefix .. ':none') end
if is_first then call('HSET', STATE, 'mark', mark) end

-- The numbers follow the clock, so that new numbers are greater than all earlier ones, even if a restart of the server
-- lost the last ones.
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

-- Let the data of a host expire some time after its last pause, unless the host has requests, permits or an owner.
local function forget_later(host)
    local next_at, paused, sent = numbers_of(host, 'next_at', 'paused', 'sent')
    if sent <= 0 and call('HEXISTS', key('host', host), 'owner') + call('EXISTS', key('queue', host)) == 0 then
        call('EXPIREAT', key('host', host), string.format('%.0f', math.max(now, next_at, paused) + KEPT))
    end
end

-- Let any worker take a host from the time of its next request on. In a long pause, the host's requests are refused
-- instead of waiting for the end of the pause. Then any worker may take the host now, to refuse them.
local function set_free(host)
    call('HDEL', key('host', host), 'owner')
    if call('EXISTS', key('queue', host)) == 1 then
        local next_at, paused = numbers_of(host, 'next_at', 'paused')
        if paused - now > order.wait_timeout then next_at, paused = now, now end
        call('ZADD', FREE, math.max(now, next_at, paused), host)
    else
        call('ZREM', FREE, host)
        forget_later(host)
    end
end

-- Allow no request to a host before the time *moment*. *field* is next_at or paused.
local function hold(host, field, moment)
    if moment > math.max(now, (numbers_of(host, field))) then
        call('HSET', key('host', host), field, moment)
        if call('ZSCORE', FREE, host) then set_free(host) end
    end
end

-- End a permit of the worker *name*. If its request was sent, the host's delay starts at the end of the request.
local function release(name, token, seconds_ago, was_sent)
    local host = call('HGET', key('permits', name), token)
    if not host then return end
    call('HDEL', key('permits', name), token)
    call('HINCRBY', key('host', host), 'sent', -1)
    if was_sent then hold(host, 'next_at', now - seconds_ago + (numbers_of(host, 'delay'))) end
    forget_later(host)
end

-- Requests.

-- Add requests to the queue of a host. The further arguments are the score and the stored data of each request.
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

-- Return the host, score and request of a lease; nothing if there is no lease.
local function parts_of(lease) return string.match(lease or '', '^(.-)\n(.-)\n(.*)$') end

-- Move a request that the worker *name* took to the front of its host's queue.
local function put_back(name, id)
    local host, score, item = parts_of(call('HGET', key('taken', name), id))
    if not host then return end
    call('HDEL', key('taken', name), id)
    score = tonumber(score) or 0
    add(host, score > -FRONT / 2 and score - FRONT or score, item)
end

-- Let other workers take a host that the worker *name* owns.
local function disown(name, host)
    call('SREM', key('owned', name), host)
    call('HDEL', key('news', name), host)
    set_free(host)
end

-- Take all hosts, requests and permits from the worker *name*, except those in *kept*. Return the number of the
-- requests that were put back into the queue.
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

-- Renew this worker's lease. If the lease of another worker has ended, take everything from that worker (at most one in
-- each call).

local answer = {
    seen = {}, permits = {}, on_server = {}, hosts = {}, pauses = {}, pages = {},
    has_lost = has_lost, returned = 0, strange = 0,
}
call('HSET', CALLS, worker, order.call)
call('ZADD', WORKERS, now + order.lease, worker)
for _, name in ipairs(call('ZRANGEBYSCORE', WORKERS, '-inf', now, 'LIMIT', 0, 1)) do
    answer.returned = return_all(name, {})
    forget_worker(name)
end

-- Execute the worker's reports.

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
    for _, done in ipairs(order.done) do
        local id, page_of = unpack(done)
        local is_known = call('HDEL', TAKEN, id) == 1
        if is_known then change = change - 1 end
        if page_of ~= '' and (is_known or id == '') then
            answer.pages[#answer.pages + 1] = { page_of, call('HINCRBY', PAGES, page_of, 1) }
        end
    end
    for _, id in ipairs(order.back) do put_back(worker, id) end
    for _, id in ipairs(order.unreadable) do
        local lease = call('HGET', TAKEN, id)
        if lease and call('HDEL', TAKEN, id) == 1 then call('ZADD', ASIDE, new_number(), lease) end
    end
    for _, permit in ipairs(order.released) do release(worker, unpack(permit)) end
    for _, pause in ipairs(order.paused) do
        local host, owner = pause[1], call('HGET', key('host', pause[1]), 'owner')
        hold(host, 'paused', now + pause[2])
        -- The back-off for the next owner. The current owner overwrites it when it gives the host back.
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

-- Collect the permits, hosts and requests for the worker.

local delivered = {}

-- Deliver up to *most* requests of a host, those with the lowest scores. Return how many requests the host had before.
local function take(host, most)
    local items, leases = call('ZPOPMIN', key('queue', host), most), {}
    for index = 1, #items, 2 do
        local item, score = items[index], items[index + 1]
        leases[index], leases[index + 1] = string.sub(item, 1, 14), host .. '\n' .. score .. '\n' .. item
        delivered[#delivered + 1] = leases[index + 1]
    end
    if #items > 0 then call('HSET', TAKEN, unpack(leases)) end
    local remaining = call('ZCARD', key('queue', host))
    answer.on_server[#answer.on_server + 1] = { host, remaining }
    return #items / 2 + remaining
end

local function tell_pause(host, paused)
    if paused > now then answer.pauses[#answer.pauses + 1] = { host, paused - now } end
end

-- Grant or refuse a permit to send one request to a host. A permit is refused during a pause. *limit* is the
-- maximum number of requests in flight to the host, and *delay* is the delay in seconds after each. Both are 0 if
-- the worker knows of no delay and no back-off. Then the delay and the back-off that other workers reported apply.
-- After a refusal, the next permit is reserved for the refused worker. Returns the token; the seconds after which
-- to request the permit again, 0 if it is granted; and the seconds until the end of a pause.
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
        tell_pause(news[index], tonumber(news[index + 1]) or 0)
        take(news[index], order.batch)
    end
    call('DEL', NEWS)
    -- order.has says that an answer did not arrive. That answer may have contained news of any host: a pause, or that
    -- the host has requests here. So repeat the news of all hosts.
    for _, host in ipairs(order.has and call('SMEMBERS', OWNED) or {}) do
        tell_pause(host, (numbers_of(host, 'paused')))
        take(host, 0)
    end
    for _, more in ipairs(order.more) do
        if call('SISMEMBER', OWNED, more[1]) == 1 then take(unpack(more)) end
    end
    -- The worker gets at most its share of the free hosts, so that other workers get some too.
    local share = math.ceil(call('ZCOUNT', FREE, '-inf', now) / call('ZCARD', WORKERS))
    for _, host in ipairs(call('ZRANGEBYSCORE', FREE, '-inf', now, 'LIMIT', 0, math.min(order.room, share))) do
        if order.room <= 0 then break end
        call('ZREM', FREE, host)
        call('HSET', key('host', host), 'owner', worker)
        call('SADD', OWNED, host)
        local own_pause, concurrency, since = numbers_of(host, 'own_pause', 'concurrency', 'since')
        answer.hosts[#answer.hosts + 1] = { host, own_pause, concurrency, now - (since > 0 and since or now) }
        answer.pages[#answer.pages + 1] = { host, tonumber(call('HGET', PAGES, host) or 0) }
        tell_pause(host, (numbers_of(host, 'paused')))
        order.room = order.room - math.min(take(host, order.batch), order.concurrency)
    end
    -- Deliver the requests that are set aside, because other workers could not deserialise them, and that this worker
    -- can deserialise.
    for _, place in ipairs(order.readable) do
        local lease = call('ZRANGEBYSCORE', ASIDE, place, place)[1]
        local _, _, item = parts_of(lease)
        if item then
            call('ZREM', ASIDE, lease)
            call('HSET', TAKEN, string.sub(item, 1, 14), lease)
            delivered[#delivered + 1] = lease
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

-- The order of a worker (what the worker reports and asks for) contains:
--   mark                  the mark of the queue that the worker uses, or "" in its first call
--   call, last_answer     the number of this call, and the number of the last call whose answer arrived. All calls
--                         after that answer contain the same reports
--   lease                 the seconds for which the worker's lease is renewed
--   new                   for each new request: host, score, whether it precedes older requests with the same score,
--                         fingerprint
--   done                  for each request that is done: its number, or "" if it waited in the memory of its worker;
--                         the host whose page it was, or ""
--   back, unreadable      the numbers of requests that are given back, and of those that the worker cannot deserialise
--   released              for each permit that ended: token, seconds since the end of its request, whether that was
--                         sent
--   paused                for each host that has asked for a pause: host, seconds
--   left                  for each host that the worker gives back: host, seconds until its next request, own_pause,
--                         concurrency, seconds since the start of the back-off
--   has                   only after a lost answer: the requests, hosts and permits that the worker has. If the server
--                         lists further ones for the worker, they are taken from it
--   retires, clears       whether the worker ends, and whether its end deletes the queue
--   permits               for each permit that the worker asks for: the arguments of acquire()
--   more                  for each owned host from which the worker wants more requests: host, their maximum number
--   batch                 the maximum number of requests that the worker gets from a host that it has just got, or
--                         that has new requests
--   wait_timeout          the seconds for which requests wait for the end of a pause. They are refused in a longer pause
--   room, concurrency     the worker wants new hosts with about this many requests in total (room). Of one host, at
--                         most this many requests count towards the total (concurrency)
--   readable, last_aside  about requests that are set aside: the places of those that this worker can deserialise, and
--                         the place of the last one that this worker has tried to deserialise
--
-- The answer contains the mark, or "lost" if the worker's queue no longer exists, or "late" for a late call; a
-- JSON object; the leases of the delivered requests; and the leases of requests that are set aside, each followed by
-- its place. The object contains:
--   seen                  the indexes of new requests whose fingerprints were known
--   remaining             the number of requests that are not done. Requests that are set aside do not count if this
--                         worker has already tried to read them
--   set_aside             the number of requests that are set aside, because no worker could deserialise them so far
--   has_lost              whether other workers may have taken this worker's hosts and requests
--   returned              the number of requests that were put back into the queue, because their worker is dead
--   strange               in the first answer, the number of requests that a queue class of scrapy-redis wrote (KEYS 3)
--   permits               for each permit that the worker asked for: the result of acquire()
--   on_server             for each new host of the worker, each host from which it wanted more requests, and each of
--                         its hosts with news: host, the number of its requests that no worker has taken
--   hosts                 for each new host of the worker, which it owns from now on: host, own_pause, concurrency,
--                         seconds since the start of the back-off
--   pauses                for each new host of the worker that is paused, and for each of its hosts for which another
--                         worker has reported a pause: host, seconds until the end of the pause
--   pages                 for each new host of the worker, and for each host for which it reported pages: host name,
--                         the number of the host's pages that are done

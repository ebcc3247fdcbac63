-- The queue that the workers of a crawl share. A host belongs to one worker, which takes its requests in
-- batches. Each call tells what one worker has done, and gets what it wants next; it happens as a whole.
--
-- KEYS: the prefix of all keys, a hash tag, so that a Redis Cluster has them on one server; the set of
-- fingerprints; the key of a queue of scrapy-redis itself. ARGV: the worker; its order, as JSON (see the
-- end); and of each new request: queue, score, "1" if the last one is first, fingerprint, request.
--
-- A queue has the requests of one origin, and is named "HOST<tab>ORIGIN<tab>KIND".
--
--   :state           hash   mark: tells this queue from an earlier one; number: the last that a request got;
--                           count: the requests that are not done
-- and, after the mark:
--   :queue:QUEUE     zset   requests by score; each begins with its number (14 hex digits)
--   :queues:HOST     set    its queues that are not empty
--   :host:HOST       hash   owner; next_at, paused (until); delay, sent, reserved_for, reserved_until: see
--                           take_turn(); own_pause, concurrency, since: the back-off, for the next owner
--   :free            zset   hosts with requests that nobody owns -> when they may be sent to
--   :workers         zset   workers -> when their leases end
--   :calls           hash   worker -> the number of its last call
--   :owned:WORKER    set    its hosts
--   :taken:WORKER    hash   number -> queue, score and request, a line each
--   :turns:WORKER    hash   token -> host
--   :news:WORKER     set    queues of its hosts that are not empty any more; its hosts that must pause
--   :aside           zset   what a worker could not read, as in :taken -> a number
--   :pages           hash   host -> how many of its pages are done, if that is limited
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
-- A turn that was refused stays reserved for so long. The least time before it is asked for again.
local PATIENCE, ASK_AGAIN = 3, 0.1

-- The queue of a worker that is gone: it must notice before anything changes.
local STATE = prefix .. ':state'
local mark = call('HGET', STATE, 'mark') or ''
if order.mark ~= '' and order.mark ~= mark then return { 'lost' } end
local is_first = mark == ''
if is_first then mark = string.format('%.0f-', now * 1e6) .. string.sub(worker, 1, 6) end

local function key(kind, name) return prefix .. ':' .. mark .. ':' .. kind .. (name and ':' .. name or '') end
local FREE, WORKERS, CALLS, ASIDE = key('free'), key('workers'), key('calls'), key('aside')

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
if #ARGV == 2 then call('DEL', prefix .. ':none') end
if is_first then call('HSET', STATE, 'mark', mark) end

local change, returned = 0, 0

-- Greater than all numbers so far, even if the server has lost the last ones.
local number = math.max(tonumber(call('HGET', STATE, 'number') or 0), math.floor(now * 1e6))
local function new_number()
    number = number + 1
    return number
end

-- Hosts.

local function host_of(queue) return string.match(queue, '^[^\t]*') end

local function numbers_of(host, ...)
    local values = call('HMGET', key('host', host), ...)
    for index = 1, select('#', ...) do values[index] = tonumber(values[index] or 0) or 0 end
    return unpack(values)
end

-- Forget a host some time after its last pause, unless it has requests or an owner.
local function forget_later(host)
    local next_at, paused, sent = numbers_of(host, 'next_at', 'paused', 'sent')
    if sent <= 0 and call('HEXISTS', key('host', host), 'owner') + call('EXISTS', key('queues', host)) == 0 then
        call('EXPIREAT', key('host', host), string.format('%.0f', math.max(now, next_at, paused) + KEPT))
    end
end

-- Let any worker take a host.
local function set_free(host)
    call('HDEL', key('host', host), 'owner')
    if call('EXISTS', key('queues', host)) == 1 then
        local next_at, paused = numbers_of(host, 'next_at', 'paused')
        call('ZADD', FREE, math.max(now, next_at, paused), host)
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

local function end_turn(name, token, seconds_ago, was_sent)
    local host = call('HGET', key('turns', name), token)
    if not host then return end
    call('HDEL', key('turns', name), token)
    call('HINCRBY', key('host', host), 'sent', -1)
    if was_sent then hold(host, 'next_at', now - seconds_ago + (numbers_of(host, 'delay'))) end
    forget_later(host)
end

-- Requests.

-- Add requests, each as its score and what is stored, to a queue.
local function add(queue, ...)
    local host, is_news = host_of(queue), call('EXISTS', key('queue', queue)) == 0
    call('ZADD', key('queue', queue), ...)
    if not is_news then return end
    call('SADD', key('queues', host), queue)
    call('PERSIST', key('host', host))
    local owner = call('HGET', key('host', host), 'owner')
    if owner then call('SADD', key('news', owner), queue) else set_free(host) end
end

-- Return a request that a worker has taken to the front of its queue.
local function put_back(name, id)
    local queue, score, item = string.match(call('HGET', key('taken', name), id) or '', '^(.-)\n(.-)\n(.*)$')
    if not queue then return end
    call('HDEL', key('taken', name), id)
    score = tonumber(score) or 0
    add(queue, string.format('%.17g', score > -FRONT / 2 and score - FRONT or score), item)
end

-- Return all that a worker has, but what is *kept*. Returns the number of requests.
local function return_all(name, kept)
    local count = 0
    for _, host in ipairs(call('SMEMBERS', key('owned', name))) do
        if not kept[host] then
            call('SREM', key('owned', name), host)
            set_free(host)
        end
    end
    for _, id in ipairs(call('HKEYS', key('taken', name))) do
        if not kept[id] then
            put_back(name, id)
            count = count + 1
        end
    end
    for _, token in ipairs(call('HKEYS', key('turns', name))) do
        if not kept[token] then end_turn(name, token, 0, true) end
    end
    return count
end

local function forget_worker(name)
    call('ZREM', WORKERS, name)
    call('HDEL', CALLS, name)
    call('DEL', key('news', name))
end

-- Who is alive.

call('HSET', CALLS, worker, order.call)
call('ZADD', WORKERS, now + order.lease, worker)
for _, name in ipairs(call('ZRANGEBYSCORE', WORKERS, '-inf', now, 'LIMIT', 0, 1)) do
    returned = return_all(name, {})
    forget_worker(name)
end

-- What the worker has done.

local seen, new = {}, {}
if not is_repeated then
    for index = 3, #ARGV, 5 do
        local queue, score, is_last_first, fingerprint, data = unpack(ARGV, index, index + 4)
        if fingerprint ~= '' and call('SADD', SEEN, fingerprint) == 0 then
            seen[#seen + 1] = (index - 3) / 5
        else
            local position = is_last_first == '1' and LAST - new_number() or new_number()
            local items = new[queue] or {}
            new[queue], items[#items + 1], items[#items + 2] = items, score, string.format('%014x', position) .. data
            change = change + 1
        end
    end
    for queue, items in pairs(new) do add(queue, unpack(items)) end
    for index = 1, #order.done, 1000 do
        change = change - call('HDEL', key('taken', worker), unpack(order.done, index, math.min(index + 999, #order.done)))
    end
    for _, id in ipairs(order.back) do put_back(worker, id) end
    for _, id in ipairs(order.unreadable) do
        local lease = call('HGET', key('taken', worker), id)
        if lease and call('HDEL', key('taken', worker), id) == 1 then call('ZADD', ASIDE, new_number(), lease) end
    end
    for _, host in ipairs(order.pages) do call('HINCRBY', key('pages'), host, 1) end
    for _, turn in ipairs(order.ended) do end_turn(worker, unpack(turn)) end
    for _, pause in ipairs(order.paused) do
        local host, owner = pause[1], call('HGET', key('host', pause[1]), 'owner')
        hold(host, 'paused', now + pause[2])
        if owner and owner ~= worker then call('SADD', key('news', owner), host) end
        forget_later(host)
    end
    for _, left in ipairs(order.left) do
        local host, next_in, own_pause, concurrency, lasted = unpack(left)
        if call('SREM', key('owned', worker), host) == 1 then
            call('HSET', key('host', host), 'own_pause', own_pause, 'concurrency', concurrency, 'since', now - lasted)
            hold(host, 'next_at', now + next_in)
            set_free(host)
        end
    end
end
if has_lost or order.has or order.retires then
    local kept = {}
    for _, name in ipairs(order.has or {}) do kept[name] = not has_lost and not order.retires end
    return_all(worker, kept)
end

-- What it gets.

-- Take the best requests of a queue. Returns its name, how many are left, and the requests: score and item.
local function take(queue, most)
    local items, leases = call('ZPOPMIN', key('queue', queue), most), {}
    for index = 1, #items, 2 do
        local item, score = items[index], items[index + 1]
        leases[index], leases[index + 1] = string.sub(item, 1, 14), table.concat({ queue, score, item }, '\n')
    end
    if #items > 0 then call('HSET', key('taken', worker), unpack(leases)) end
    local left = call('ZCARD', key('queue', queue))
    if left == 0 then call('SREM', key('queues', host_of(queue)), queue) end
    return { queue, left, items }
end

-- Let the worker send a request to a host that has no pause; with a *limit*, if fewer are in flight to it, and
-- the *delay* of the last one is over. A worker that knows of no delay or back-off keeps those of the others. The
-- next turn is that of the worker that was refused first. Returns the seconds after which to ask again, 0 if it may
-- be sent; and the seconds of a pause.
local function take_turn(token, host, limit, delay)
    local name = key('host', host)
    if delay == 0 then delay = (numbers_of(host, 'delay')) end
    if delay > 0 then limit = 1 end
    local next_at, paused, sent, reserved_until = numbers_of(host, 'next_at', 'paused', 'sent', 'reserved_until')
    if sent > 0 and limit == 0 then limit = 1 end
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
        call('HSET', key('turns', worker), token, host)
    end
    forget_later(host)
    return { token, string.format('%.6f', math.max(wait, 0)), string.format('%.6f', math.max(paused - now, 0)) }
end

local turns, found, hosts, pauses, unread = {}, {}, {}, {}, {}
if order.retires then
    forget_worker(worker)
elseif not has_lost then
    for _, turn in ipairs(order.turns) do turns[#turns + 1] = take_turn(unpack(turn)) end
    for _, name in ipairs(call('SMEMBERS', key('news', worker))) do
        if call('SISMEMBER', key('owned', worker), host_of(name)) == 0 then
            -- It was given back meanwhile.
        elseif string.find(name, '\t', 1, true) then
            found[#found + 1] = take(name, order.batch)
        else
            pauses[#pauses + 1] = { name, string.format('%.6f', (numbers_of(name, 'paused')) - now) }
        end
    end
    call('DEL', key('news', worker))
    for _, more in ipairs(order.more) do
        if call('SISMEMBER', key('owned', worker), host_of(more[1])) == 1 then found[#found + 1] = take(unpack(more)) end
    end
    -- No more than its share of the free hosts: others may have nothing to do.
    local share = math.ceil(call('ZCOUNT', FREE, '-inf', now) / call('ZCARD', WORKERS))
    for _, host in ipairs(call('ZRANGEBYSCORE', FREE, '-inf', now, 'LIMIT', 0, math.min(order.room, share))) do
        if order.room <= 0 then break end
        call('ZREM', FREE, host)
        call('HSET', key('host', host), 'owner', worker)
        call('SADD', key('owned', worker), host)
        local own_pause, concurrency, since = numbers_of(host, 'own_pause', 'concurrency', 'since')
        local pages = call('HGET', key('pages'), host) or 0
        hosts[#hosts + 1] = {
            host, string.format('%.6f', own_pause), concurrency, string.format('%.6f', now - since), pages
        }
        local size = 0
        for _, queue in ipairs(call('SMEMBERS', key('queues', host))) do
            local taken = take(queue, order.batch)
            found[#found + 1], size = taken, size + #taken[3] / 2 + taken[2]
        end
        order.room = order.room - math.min(size, order.concurrency)
    end
    -- Requests that others could not read: the worker tries them, and then takes those that it can.
    for _, place in ipairs(order.readable) do
        local lease = call('ZRANGEBYSCORE', ASIDE, place, place)[1]
        local queue, score, item = string.match(lease or '', '^(.-)\n(.-)\n(.*)$')
        if queue then
            call('ZREM', ASIDE, lease)
            call('HSET', key('taken', worker), string.sub(item, 1, 14), lease)
            found[#found + 1] = { queue, 0, { item, score } }
        end
    end
    unread = call('ZRANGEBYSCORE', ASIDE, '(' .. order.last_aside, '+inf', 'WITHSCORES', 'LIMIT', 0, 50)
end

local count = call('HINCRBY', STATE, 'count', change)
call('HSET', STATE, 'number', string.format('%.0f', number))

-- The order of a worker has:
--   mark                  that of the queue that it knows, or ""
--   call, last_answer     the number of this call, and that of the last one whose answer has arrived: all later ones
--                         have the same reports
--   lease                 for how long its lease is renewed
--   done, back, unreadable   requests whose callbacks have ended, that it does not use, and cannot read
--   pages                 the host of each page that is done
--   ended                 turns: token, seconds since the end, whether it was sent
--   paused                hosts that have asked for a pause: host, seconds
--   left                  hosts that it gives back: host, seconds to the next turn, own_pause, concurrency, and for
--                         how many seconds the back-off has lasted
--   has                   only after a lost answer: its requests, hosts and turns. All others return
--   retires, clears       whether it ends, and whether the queue is to be deleted then
--   turns                 what it wants to send: the arguments of take_turn()
--   more, batch           how many requests of which queues, and how many of a new one
--   room, concurrency     for how many requests it wants hosts, and how many of a host may be in flight
--   readable, last_aside  requests that others could not read: those that it can, by their places, and the last place
--                         that it has tried
--
-- Returns the mark; the indexes of new requests whose fingerprint is known; how many requests are not done, but those
-- that were set aside and that it has tried; 1 if it has lost what it had; how many requests have returned from a dead
-- worker; and what it gets. Instead of the mark "lost" if its queue is gone, "late" for a late call.
if order.clears and (count > 0 or call('ZCARD', WORKERS) == 0) then call('UNLINK', STATE, SEEN, KEYS[3], key('pages')) end
local strange = 0
if order.call == 1 then
    local kind = call('TYPE', KEYS[3]).ok
    strange = kind == 'zset' and call('ZCARD', KEYS[3]) or kind == 'list' and call('LLEN', KEYS[3]) or 0
end
local tried = call('ZCOUNT', ASIDE, '-inf', order.last_aside)
return { mark, seen, count - tried, has_lost and 1 or 0, returned, turns, found, hosts, pauses, unread, call('ZCARD', ASIDE), strange }

-- Needs: common, places, arriving, returning, counting
-- A worker reports the robots.txt of a queue, or that it does not fetch it.
--
-- ARGV: worker, queue, a request of the queue that cannot be read, which is removed; and if
-- robots.txt is known: how long it holds, its crawl delay, how long ago it was fetched, and how
-- long until its visit time.
local worker, queue = ARGV[1], ARGV[2]
local key = prefix .. ':host:' .. host_of(queue)
begin()
call('SREM', prefix .. ':learning:' .. worker, queue)
if not ARGV[4] then
    if ARGV[3] ~= '' then note_ended(call('ZREM', key_of(queue), ARGV[3])) end
    forget_learning(queue)
    return 1
end

local holds, delay = tonumber(ARGV[4]), tonumber(ARGV[5])
local free = tonumber(call('HGET', key, 'free')) or 0
-- The fetch of robots.txt was a request to the host too, after which its delay applies.
free = math.max(free, now + delay - ARGV[6])
call('HSET', key, 'known', 1, 'k ' .. queue, now + holds, 'free', free)
local before = call('HGET', key, 'd ' .. queue)
if delay > 0 then
    call('HSET', key, 'd ' .. queue, delay)
else
    call('HDEL', key, 'd ' .. queue)
end
if delay > 0 or before then
    -- The longest delay of the queues of the host. Forget those whose robots.txt expired an
    -- hour ago or earlier.
    local longest, fields, gone = 0, call('HGETALL', key), {}
    for index = 1, #fields, 2 do
        local name = string.match(fields[index], '^k (.*)')
        if name and fields[index + 1] + RESCUE <= now then
            gone['d ' .. name] = true
            call('HDEL', key, 'k ' .. name, 'd ' .. name)
        end
    end
    for index = 1, #fields, 2 do
        local field = fields[index]
        if string.sub(field, 1, 2) == 'd ' and not gone[field] then
            longest = math.max(longest, tonumber(fields[index + 1]))
        end
    end
    if longest > 0 then
        call('HSET', key, 'delay', longest)
    else
        call('HDEL', key, 'delay')
    end
end
call('PEXPIRE', key, math.max(call('PTTL', key), holds + RESCUE))
call('ZREM', prefix .. ':unknown', queue)
if not is_empty(queue) then call('ZADD', prefix .. ':ready', now + ARGV[7], queue) end
return 1

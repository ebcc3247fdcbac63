-- Needs: common
-- A host has answered 429 or 503: no worker sends anything to it for a while.
--
-- ARGV: host; the pause; the last pause that was doubled; the longest time that requests wait
-- for a host before they are refused.
local host, pause, own = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local key, pauses, ready = prefix .. ':host:' .. host, prefix .. ':pauses', prefix .. ':ready'
begin()
local state = call('HMGET', key, 'out', 'free', 'paused', 'own', 'since')
local out, last_own = tonumber(state[1]) or 0, tonumber(state[4]) or 0
local paused = math.max(now + pause, tonumber(state[3]) or 0)
local since = last_own > 0 and state[5] or now
own = math.max(own, last_own, 1) -- 0 after a success only.
call('HSET', key, 'paused', paused, 'own', own, 'since', since, 'places', 1,
    'free', math.max(paused, tonumber(state[2]) or 0))
local life, rest = paused - now + REMEMBERED, call('PTTL', key)
if (rest < 0 and out <= 0) or (rest >= 0 and rest < life) then call('PEXPIRE', key, life) end

-- Each worker reads the pauses that are newer than the last one that it has read.
local last = call('ZREVRANGE', pauses, 0, 0, 'WITHSCORES')[2]
call('ZADD', pauses, math.max((tonumber(last) or 0) + 1, now), host)
call('PEXPIRE', pauses, math.max(call('PTTL', pauses), life))

if is_refused_for({ paused = paused, own = own, since = since }, out, tonumber(ARGV[4])) then
    -- Its queues are checked now, for the requests to be refused.
    for _, field in ipairs(call('HKEYS', key)) do
        local queue = string.match(field, '^k (.*)')
        if queue then call('ZADD', ready, 'XX', now, queue) end
    end
    call('ZADD', ready, 'XX', now, host .. '\t')
end
return 1

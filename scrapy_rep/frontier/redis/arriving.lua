-- Functions for requests that arrive at a queue.

-- Schedule a check, at once, of a queue that is not empty, unless one is scheduled already.
local function arrive(queue)
    if call('ZSCORE', prefix .. ':ready', queue) then return end
    if call('ZSCORE', prefix .. ':unknown', queue) then return end
    local is_known = is_exempt(queue)
    if not is_known then
        local until_when = call('HGET', prefix .. ':host:' .. host_of(queue), 'k ' .. queue)
        is_known = (tonumber(until_when) or 0) > now
    end
    call('ZADD', prefix .. (is_known and ':ready' or ':unknown'), now, queue)
end

-- Requests that come.

-- A queue with requests in it is looked at as soon as may be, if it was not going to be.
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

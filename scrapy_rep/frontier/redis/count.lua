-- Needs: common, counting
-- Return how many requests are not done.
local number = tonumber(redis.pcall('GET', NUMBER))
local ended = tonumber(redis.pcall('GET', ENDED))
if number and ended and ended <= number then return number - ended end
begin()
return recount()

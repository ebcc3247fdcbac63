-- Needs: common, places
-- Free a place that was acquired. ARGV: worker, number, host, delay, which is 0 if the host got
-- no request.
begin()
local delay = tonumber(ARGV[4])
leave(ARGV[1], ARGV[2], ARGV[3], delay > 0, delay, 0)
return 1

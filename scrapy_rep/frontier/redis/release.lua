-- Needs: common, places
-- Free a place that was acquired. ARGV: worker, number, host, delay; 0 where the host was
-- not asked.
begin()
local delay = tonumber(ARGV[4])
leave(ARGV[1], ARGV[2], ARGV[3], delay > 0, delay, 0)
return 1

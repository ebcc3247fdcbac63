-- Needs: common, places
-- Free a place that was acquired. ARGV: worker, number, host, what has become of the request, its
-- delay.
begin()
leave(ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), 0)
return 1

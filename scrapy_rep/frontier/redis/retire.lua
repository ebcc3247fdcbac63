-- Needs: common, places, arriving, returning
-- A worker ends: return all it has to the queue. ARGV: worker.
begin()
return retire(ARGV[1], 0)

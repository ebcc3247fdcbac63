-- Needs: common, places, arriving, returning
-- A worker ends: what it has is there for others. ARGV: worker.
begin()
return retire(ARGV[1], false)

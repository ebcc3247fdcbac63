-- Needs: common, counting
-- Return how many requests are not done.
return count_all()

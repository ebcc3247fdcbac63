-- Needs: common, arriving, counting
-- Add a request. Returns 1; 0 if its fingerprint is known; -1 if the call is late.
--
-- ARGV: deadline, queue, score, request, fingerprint.
-- KEYS[2]: the set of fingerprints.
local queue = ARGV[2]
if is_late(ARGV[1]) then return -1 end
if ARGV[5] ~= '' and call('SADD', KEYS[2], ARGV[5]) == 0 then return 0 end
local number = next_number()
call('ZADD', key_of(queue), ARGV[3], string.format('%014x', number) .. ARGV[4])
arrive(queue)
return 1

-- KEYS: what is unknown, by since when. ARGV: how many to pass over, and how many at most.
return redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[1] + ARGV[2] - 1)

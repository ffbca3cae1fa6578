-- KEYS: where it is noted. ARGV: the check of a secret.
redis.call('SETNX', KEYS[1], ARGV[1])
return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0

-- The newest steady time of whoever held a Shard: the next one begins no earlier. Leases run out by the wall, which may
-- be wrong while one is granted.
ALTER TABLE lease ADD COLUMN steady_at INTEGER;

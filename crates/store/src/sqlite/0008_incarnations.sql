-- One life of one node; numbers only grow. Without a holder it was given back. Its row goes when another one follows it.
CREATE TABLE incarnation (
    number INTEGER PRIMARY KEY,
    holder TEXT,
    expires_at INTEGER NOT NULL,
    steady_at INTEGER
);
INSERT INTO incarnation (number, expires_at, steady_at)
SELECT (SELECT coalesce(max(id >> 38), 0) FROM journal), 0, max(steady_at) FROM lease;

-- Who takes the Turns of a Shard, and from where on the journal is needed for it.
CREATE TABLE shard (
    number INTEGER PRIMARY KEY,
    incarnation INTEGER,
    keep_from INTEGER NOT NULL DEFAULT 0
);
-- Ids did not tell their Shard before: all are of the first.
INSERT INTO shard (number) SELECT 0 FROM lease LIMIT 1;
UPDATE meta SET value = 1 WHERE key = 'shards';
UPDATE execution SET shard = 0 WHERE shard <> 0;
DROP TABLE lease;

-- A journal is an incarnation's: id = incarnation * 2^38 + the number of its row, from 1. What was there before is
-- incarnation 0's.
ALTER TABLE journal DROP COLUMN epoch;

DROP TABLE counter;
CREATE TABLE counter (
    incarnation INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (incarnation, name)
) WITHOUT ROWID;

-- What was set aside goes by the id of its journal row.
DROP INDEX aside_position;
ALTER TABLE aside DROP COLUMN shard;
CREATE UNIQUE INDEX aside_position ON aside (position, coalesce(execution, x''));

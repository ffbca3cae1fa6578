-- A file of schema 3, with one of each. It never changes.
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;

CREATE TABLE lease (
    shard INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    holder TEXT,
    expires_at INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE machine (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE revision (
    id INTEGER PRIMARY KEY,
    machine INTEGER NOT NULL,
    kind TEXT NOT NULL,
    definition TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX revision_machine ON revision (machine);

-- id = shard * 2^48 + position
CREATE TABLE journal (
    id INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    turns BLOB NOT NULL
);

CREATE TABLE execution (
    row INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    shard INTEGER NOT NULL,
    machine INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    name TEXT,
    status TEXT NOT NULL,
    awake INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    wake_at INTEGER,
    wake_wall_at INTEGER,
    redrives INTEGER NOT NULL,
    covered_at INTEGER NOT NULL DEFAULT 0,
    turns INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0,
    tail_from INTEGER,
    state_turn INTEGER,
    tail BLOB,
    state BLOB
);
CREATE UNIQUE INDEX execution_id ON execution (id);
CREATE UNIQUE INDEX execution_name ON execution (machine, name) WHERE name IS NOT NULL;
CREATE INDEX execution_list ON execution (machine, status, started_at, id);
CREATE INDEX execution_ended ON execution (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX execution_awake ON execution (shard, awake) WHERE awake;
CREATE INDEX execution_wake ON execution (shard, wake_at, id) WHERE wake_at IS NOT NULL AND NOT awake;
CREATE INDEX execution_wake_wall ON execution (shard, wake_wall_at, id)
    WHERE wake_wall_at IS NOT NULL AND NOT awake;

CREATE TABLE history (
    row INTEGER PRIMARY KEY,
    execution BLOB NOT NULL,
    first INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    bytes BLOB NOT NULL
);
CREATE UNIQUE INDEX history_first ON history (execution, first);

CREATE TABLE ledger (
    row INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    wire_key TEXT NOT NULL,
    execution TEXT NOT NULL,
    step TEXT NOT NULL,
    round INTEGER NOT NULL,
    status TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    completed_at INTEGER,
    result TEXT,
    error TEXT,
    ended_at INTEGER
);
CREATE INDEX ledger_status ON ledger (status, started_at);
CREATE INDEX ledger_execution ON ledger (execution);
CREATE INDEX ledger_ended ON ledger (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE counter (
    shard INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (shard, name)
) WITHOUT ROWID;

-- For people.
CREATE VIEW executions AS
SELECT lower(substr(hex(e.id), 1, 8) || '-' || substr(hex(e.id), 9, 4) || '-' || substr(hex(e.id), 13, 4)
           || '-' || substr(hex(e.id), 17, 4) || '-' || substr(hex(e.id), 21)) AS id,
       e.name,
       m.name AS machine,
       e.revision,
       e.status,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.started_at / 1000.0, 'unixepoch') AS started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.ended_at / 1000.0, 'unixepoch') AS ended_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', min(coalesce(e.wake_at, e.wake_wall_at),
                coalesce(e.wake_wall_at, e.wake_at)) / 1000.0, 'unixepoch') AS wakes_at,
       e.redrives,
       e.turns,
       e.events
FROM execution e LEFT JOIN machine m ON m.id = e.machine;

-- What is kept by name and is no machine: connections, activities.
CREATE TABLE registry (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- It sleeps while a worker or a child works for it: a new process has to wake it up once.
ALTER TABLE execution ADD COLUMN waits INTEGER NOT NULL DEFAULT 0;
CREATE INDEX execution_waits ON execution (shard, id) WHERE waits AND NOT awake;

-- Children of a Map Run are executions that no list shows and that go with their parent, so the indices of lists and
-- of sweeping do not have them.
ALTER TABLE execution ADD COLUMN map_run BLOB;
ALTER TABLE execution ADD COLUMN child INTEGER;
CREATE INDEX execution_child ON execution (map_run, child, status) WHERE map_run IS NOT NULL;
DROP INDEX execution_list;
CREATE INDEX execution_list ON execution (machine, status, started_at, id) WHERE map_run IS NULL;
DROP INDEX execution_ended;
CREATE INDEX execution_ended ON execution (ended_at) WHERE ended_at IS NOT NULL AND map_run IS NULL;

CREATE TABLE map_run (
    id BLOB PRIMARY KEY,
    arn TEXT NOT NULL,
    execution BLOB NOT NULL,
    status TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    redrives INTEGER NOT NULL,
    redriven_at INTEGER,
    max_concurrency INTEGER NOT NULL,
    tolerated_count INTEGER,
    tolerated_percentage REAL,
    source_version TEXT,
    items_total INTEGER NOT NULL,
    items_running INTEGER NOT NULL,
    items_succeeded INTEGER NOT NULL,
    items_failed INTEGER NOT NULL,
    items_timed_out INTEGER NOT NULL,
    items_aborted INTEGER NOT NULL,
    children_total INTEGER NOT NULL,
    children_running INTEGER NOT NULL,
    children_succeeded INTEGER NOT NULL,
    children_failed INTEGER NOT NULL,
    children_timed_out INTEGER NOT NULL,
    children_aborted INTEGER NOT NULL,
    results_written INTEGER NOT NULL,
    -- Its parent was swept: its children go next, then this row.
    orphaned INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX map_run_execution ON map_run (execution);
CREATE INDEX map_run_orphaned ON map_run (id) WHERE orphaned;

DROP VIEW executions;
CREATE VIEW executions AS
SELECT lower(substr(hex(e.id), 1, 8) || '-' || substr(hex(e.id), 9, 4) || '-' || substr(hex(e.id), 13, 4)
           || '-' || substr(hex(e.id), 17, 4) || '-' || substr(hex(e.id), 21)) AS id,
       e.name,
       m.name AS machine,
       e.revision,
       e.status,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.started_at / 1000.0, 'unixepoch') AS started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.ended_at / 1000.0, 'unixepoch') AS ended_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', min(coalesce(e.wake_at, e.wake_wall_at),
                coalesce(e.wake_wall_at, e.wake_at)) / 1000.0, 'unixepoch') AS wakes_at,
       e.redrives,
       e.turns,
       e.events
FROM execution e LEFT JOIN machine m ON m.id = e.machine
WHERE e.map_run IS NULL;

PRAGMA application_id = 1885696612;
PRAGMA user_version = 3;
INSERT INTO meta VALUES ('installation', '00112233445566778899aabbccddeeff'), ('shards', 2);
INSERT INTO lease VALUES (0, 3, 'old', 50), (1, 4, 'old', 50);
INSERT INTO machine VALUES (1, 'payments');
INSERT INTO revision VALUES (1, 1, 'STANDARD', '{}', 7), (2, 1, 'STANDARD', '{ }', 8);
INSERT INTO execution (id, shard, machine, revision, name, status, awake, started_at, ended_at, redrives)
VALUES (x'00000000000040008000000000000001', 0, 1, 1, 'order-1', 'SUCCEEDED', 0, 10, 20, 0);
INSERT INTO ledger (key, wire_key, execution, step, round, status, started_at)
VALUES ('k', '00000000-0000-4000-8000-000000000002', '00000000-0000-4000-8000-000000000001', 'Pay#1', 1, 'failed', 12);
INSERT INTO registry VALUES ('activity', 'approve', 9, x'7b7d');
INSERT INTO map_run VALUES (x'00000000000040008000000000000009', 'arn', x'00000000000040008000000000000001', 'SUCCEEDED',
    10, 20, 0, NULL, 0, NULL, NULL, NULL, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0);
INSERT INTO execution (id, shard, machine, revision, status, awake, started_at, ended_at, redrives, map_run, child)
VALUES (x'00000000000040008000000000000003', 0, 1, 1, 'SUCCEEDED', 0, 10, 20, 0, x'00000000000040008000000000000009', 0);

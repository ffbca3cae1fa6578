-- A file of schema 2, with one of each. It never changes.
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

PRAGMA application_id = 1885696612;
PRAGMA user_version = 2;
INSERT INTO meta VALUES ('installation', '00112233445566778899aabbccddeeff'), ('shards', 2);
INSERT INTO lease VALUES (0, 3, 'old', 50), (1, 4, 'old', 50);
INSERT INTO machine VALUES (1, 'payments');
INSERT INTO revision VALUES (1, 1, 'STANDARD', '{}', 7);
INSERT INTO execution (id, shard, machine, revision, name, status, awake, started_at, ended_at, redrives)
VALUES (x'00000000000040008000000000000001', 0, 1, 1, 'order-1', 'SUCCEEDED', 0, 10, 20, 0);
INSERT INTO ledger (key, wire_key, execution, step, round, status, started_at)
VALUES ('k', '00000000-0000-4000-8000-000000000002', '00000000-0000-4000-8000-000000000001', 'Pay#1', 1, 'failed', 12);
INSERT INTO registry VALUES ('activity', 'approve', 9, x'7b7d');

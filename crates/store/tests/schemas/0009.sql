-- A file of schema 9, with one of each. It never changes.
CREATE TABLE aside (
    row INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    execution BLOB,
    turns BLOB
);
CREATE TABLE counter (
    incarnation INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (incarnation, name)
) WITHOUT ROWID;
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
, waits INTEGER NOT NULL DEFAULT 0, map_run BLOB, child INTEGER, version INTEGER, alias TEXT, redriven_at INTEGER, items INTEGER, labels TEXT, root_key TEXT, error TEXT);
INSERT INTO "execution" VALUES(1,X'00000000000040008000000000000001',0,1,1,'order-1','SUCCEEDED',0,10,20,NULL,NULL,0,0,0,0,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "execution" VALUES(2,X'00000000000040008000000000000003',0,1,1,NULL,'SUCCEEDED',0,10,20,NULL,NULL,0,0,0,0,NULL,NULL,NULL,NULL,0,X'00000000000040008000000000000009',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE history (
    row INTEGER PRIMARY KEY,
    execution BLOB NOT NULL,
    first INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    bytes BLOB NOT NULL
);
CREATE TABLE incarnation (
    number INTEGER PRIMARY KEY,
    holder TEXT,
    expires_at INTEGER NOT NULL,
    steady_at INTEGER
);
INSERT INTO "incarnation" VALUES(0,NULL,0,NULL);
CREATE TABLE journal (
    id INTEGER PRIMARY KEY,
    turns BLOB NOT NULL
);
CREATE TABLE label (
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    execution BLOB NOT NULL,
    PRIMARY KEY (key, value, began_at, execution)
) WITHOUT ROWID;
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
INSERT INTO "ledger" VALUES(1,'k','00000000-0000-4000-8000-000000000002','00000000-0000-4000-8000-000000000001','Pay#1',1,'failed',12,NULL,NULL,NULL,NULL);
CREATE TABLE machine (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
, revision INTEGER, created_at INTEGER NOT NULL DEFAULT 0, changed INTEGER NOT NULL DEFAULT 1, card TEXT NOT NULL DEFAULT '{}');
INSERT INTO "machine" VALUES(1,'payments',2,7,1,'{}');
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
INSERT INTO "map_run" VALUES(X'00000000000040008000000000000009','arn',X'00000000000040008000000000000001','SUCCEEDED',10,20,0,NULL,0,NULL,NULL,NULL,1,0,1,0,0,0,1,0,1,0,0,0,0,0);
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;
INSERT INTO "meta" VALUES('installation','00112233445566778899aabbccddeeff');
INSERT INTO "meta" VALUES('secret',X'1B96AF10A4BA3DF6CABDF531B01680AE1C934A15B47FA36C3F04EAE2001C862C');
INSERT INTO "meta" VALUES('shards',1);
CREATE TABLE registry (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
INSERT INTO "registry" VALUES('activity','approve',9,X'7B7D');
CREATE TABLE revision (
    id INTEGER PRIMARY KEY,
    machine INTEGER NOT NULL,
    kind TEXT NOT NULL,
    definition TEXT NOT NULL,
    created_at INTEGER NOT NULL
, role_arn TEXT, settings TEXT);
INSERT INTO "revision" VALUES(1,1,'STANDARD','{}',7,NULL,NULL);
INSERT INTO "revision" VALUES(2,1,'STANDARD','{ }',8,NULL,NULL);
CREATE TABLE shard (
    number INTEGER PRIMARY KEY,
    incarnation INTEGER,
    keep_from INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "shard" VALUES(0,NULL,0);
CREATE INDEX revision_machine ON revision (machine);
CREATE UNIQUE INDEX execution_id ON execution (id);
CREATE UNIQUE INDEX execution_name ON execution (machine, name) WHERE name IS NOT NULL;
CREATE INDEX execution_awake ON execution (shard, awake) WHERE awake;
CREATE INDEX execution_wake ON execution (shard, wake_at, id) WHERE wake_at IS NOT NULL AND NOT awake;
CREATE INDEX execution_wake_wall ON execution (shard, wake_wall_at, id)
    WHERE wake_wall_at IS NOT NULL AND NOT awake;
CREATE UNIQUE INDEX history_first ON history (execution, first);
CREATE INDEX ledger_status ON ledger (status, started_at);
CREATE INDEX ledger_execution ON ledger (execution);
CREATE INDEX ledger_ended ON ledger (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX execution_waits ON execution (shard, id) WHERE waits AND NOT awake;
CREATE INDEX execution_list ON execution (machine, status, started_at, id) WHERE map_run IS NULL;
CREATE INDEX map_run_execution ON map_run (execution);
CREATE INDEX map_run_orphaned ON map_run (id) WHERE orphaned;
CREATE INDEX machine_there ON machine (name) WHERE revision IS NOT NULL;
CREATE INDEX execution_version ON execution (machine, version, status, started_at, id)
    WHERE version IS NOT NULL AND map_run IS NULL;
CREATE INDEX execution_alias ON execution (machine, alias, status, started_at, id)
    WHERE alias IS NOT NULL AND map_run IS NULL;
CREATE INDEX execution_redriven ON execution (machine, status, started_at, id)
    WHERE redrives > 0 AND map_run IS NULL;
CREATE INDEX aside_execution ON aside (execution) WHERE execution IS NOT NULL;
CREATE INDEX map_run_running ON map_run (id) WHERE ended_at IS NULL AND NOT orphaned;
CREATE INDEX execution_child ON execution (map_run, status, (redrives > 0), child, items) WHERE map_run IS NOT NULL;
CREATE UNIQUE INDEX aside_position ON aside (position, coalesce(execution, x''));
CREATE INDEX execution_root ON execution (root_key, started_at, id) WHERE root_key IS NOT NULL AND map_run IS NULL;
CREATE INDEX execution_error ON execution (error, started_at, id) WHERE error IS NOT NULL AND map_run IS NULL;
CREATE INDEX execution_ended ON execution (ended_at, id) WHERE ended_at IS NOT NULL AND map_run IS NULL;
CREATE INDEX ledger_wire ON ledger (wire_key);
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
       e.events,
       e.error,
       e.labels,
       e.root_key
FROM execution e LEFT JOIN machine m ON m.id = e.machine
WHERE e.map_run IS NULL;
PRAGMA application_id = 1885696612;
PRAGMA user_version = 9;

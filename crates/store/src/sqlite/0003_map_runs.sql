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

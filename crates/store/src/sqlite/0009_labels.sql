-- What an execution is found by beside machine, status and name.
ALTER TABLE execution ADD COLUMN labels TEXT;
ALTER TABLE execution ADD COLUMN root_key TEXT;
ALTER TABLE execution ADD COLUMN error TEXT;
CREATE INDEX execution_root ON execution (root_key, started_at, id) WHERE root_key IS NOT NULL AND map_run IS NULL;
CREATE INDEX execution_error ON execution (error, started_at, id) WHERE error IS NOT NULL AND map_run IS NULL;

-- The labels of executions that lists show: written with their first row, and never changed.
CREATE TABLE label (
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    execution BLOB NOT NULL,
    PRIMARY KEY (key, value, began_at, execution)
) WITHOUT ROWID;

-- Lists in the order of the end are read from it too, so those of one millisecond have an order.
DROP INDEX execution_ended;
CREATE INDEX execution_ended ON execution (ended_at, id) WHERE ended_at IS NOT NULL AND map_run IS NULL;

-- A key from the wire is asked for.
CREATE INDEX ledger_wire ON ledger (wire_key);

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
       e.events,
       e.error,
       e.labels,
       e.root_key
FROM execution e LEFT JOIN machine m ON m.id = e.machine
WHERE e.map_run IS NULL;

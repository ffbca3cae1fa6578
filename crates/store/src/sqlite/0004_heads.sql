-- A machine as it stands: which revision counts, and what is kept beside its definitions. Without a revision it is gone;
-- its name keeps its id.
ALTER TABLE machine ADD COLUMN revision INTEGER;
ALTER TABLE machine ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE machine ADD COLUMN changed INTEGER NOT NULL DEFAULT 1;
ALTER TABLE machine ADD COLUMN card TEXT NOT NULL DEFAULT '{}';
UPDATE machine SET
    revision = (SELECT max(id) FROM revision r WHERE r.machine = machine.id),
    created_at = coalesce((SELECT created_at FROM revision r WHERE r.machine = machine.id ORDER BY id LIMIT 1), 0);
CREATE INDEX machine_there ON machine (name) WHERE revision IS NOT NULL;
ALTER TABLE revision ADD COLUMN role_arn TEXT;
ALTER TABLE revision ADD COLUMN settings TEXT;

-- How an execution was started, and when it was last redriven.
ALTER TABLE execution ADD COLUMN version INTEGER;
ALTER TABLE execution ADD COLUMN alias TEXT;
ALTER TABLE execution ADD COLUMN redriven_at INTEGER;
CREATE INDEX execution_version ON execution (machine, version, status, started_at, id)
    WHERE version IS NOT NULL AND map_run IS NULL;
CREATE INDEX execution_alias ON execution (machine, alias, status, started_at, id)
    WHERE alias IS NOT NULL AND map_run IS NULL;
CREATE INDEX execution_redriven ON execution (machine, status, started_at, id)
    WHERE redrives > 0 AND map_run IS NULL;
-- Children by status, so that the few that failed are found among the many that did not.
DROP INDEX execution_child;
CREATE INDEX execution_child ON execution (map_run, status, (redrives > 0), child) WHERE map_run IS NOT NULL;

-- What is handed out and wanted back unchanged is signed with it.
INSERT INTO meta (key, value) VALUES ('secret', randomblob(32));

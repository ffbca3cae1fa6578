-- Map Runs whose process may have died before it ended them: the next one looks for them.
CREATE INDEX map_run_running ON map_run (id) WHERE ended_at IS NULL AND NOT orphaned;

-- How many items a child of a Map Run has; without it, one. The items of a run are counted by its children.
ALTER TABLE execution ADD COLUMN items INTEGER;
DROP INDEX execution_child;
CREATE INDEX execution_child ON execution (map_run, status, (redrives > 0), child, items) WHERE map_run IS NOT NULL;

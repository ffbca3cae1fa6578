-- When the data of an execution was erased.
ALTER TABLE execution ADD COLUMN erased_at INTEGER;

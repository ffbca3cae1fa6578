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

-- What the journal had of executions that cannot be read, kept until a person has decided: the journal goes on without
-- them. Without an execution: a row of the journal that cannot be read at all. Without Turns: the execution was given up,
-- and what the journal has of it up to this position does not count.
CREATE TABLE aside (
    row INTEGER PRIMARY KEY,
    shard INTEGER NOT NULL,
    position INTEGER NOT NULL,
    execution BLOB,
    turns BLOB
);
CREATE UNIQUE INDEX aside_position ON aside (shard, position, coalesce(execution, x''));
CREATE INDEX aside_execution ON aside (execution) WHERE execution IS NOT NULL;

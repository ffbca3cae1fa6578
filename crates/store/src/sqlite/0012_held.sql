-- Of those that wait, 2 in `waits` says that its machine is paused: it could go on.
CREATE INDEX execution_held ON execution (shard, id, machine) WHERE waits = 2 AND NOT awake;

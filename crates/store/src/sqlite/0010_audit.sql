-- Who did what. A row has the entries of one commit for one chain: a Shard's, or -1 for what everybody changes. Its hash
-- is the SHA-256 of the other columns and of the hash before; docs/audit.md says how it is made.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    chain INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    from_at INTEGER NOT NULL,
    to_at INTEGER NOT NULL,
    entries TEXT NOT NULL,
    previous BLOB NOT NULL,
    hash BLOB NOT NULL
);

-- Where each chain begins and ends.
CREATE TABLE audit_chain (
    chain INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    before BLOB NOT NULL,
    next INTEGER NOT NULL,
    head BLOB NOT NULL
);

CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END;

-- The oldest rows of a chain go, after its first entry was moved.
CREATE TRIGGER audit_keeps BEFORE DELETE ON audit
WHEN OLD.first >= coalesce((SELECT first FROM audit_chain WHERE chain = OLD.chain), 0) BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END;

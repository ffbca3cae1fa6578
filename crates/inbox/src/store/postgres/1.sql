-- The first form of the tables. Runs with the inbox's schema as the only one in the search path; the functions keep that
-- path, so they mean the same tables whoever calls them.
--
-- The functions say in SQL what the rule says. They count on READ COMMITTED: each statement sees what was committed before
-- it began, and an UPDATE that waited for another one checks its WHERE again on what that one left.

-- The only clock. Tests replace it.
CREATE FUNCTION inbox_now() RETURNS timestamptz
LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';

-- So many microseconds later, or the end of time.
CREATE FUNCTION inbox_later(p_at timestamptz, p_by bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$
    SELECT LEAST(p_at + p_by * interval '1 microsecond', timestamptz '9999-12-30 22:00:00.999999+00')
$$;

-- Arrivals and epochs. Without a cache: numbers are drawn in the order in which they count.
CREATE SEQUENCE inbox_number AS bigint CACHE 1;

-- A heartbeat changes no indexed column, so with the free space on each page it rewrites the row on its page and no index.
-- A claim and an end change the status, which the index on (status, received_at) has. Large payloads are moved out by PostgreSQL itself,
-- so that rewriting a row leaves them where they are.
CREATE TABLE inbox_row (
    number       bigint PRIMARY KEY,
    received_at  timestamptz NOT NULL,
    claimed_at   timestamptz,
    processed_at timestamptz,
    not_before   timestamptz NOT NULL,
    lease_until  timestamptz,
    epoch        bigint NOT NULL DEFAULT 0,
    attempts     integer NOT NULL DEFAULT 0,
    head         boolean NOT NULL,
    status       text COLLATE "C" NOT NULL CHECK (status IN ('PENDING', 'DOING', 'DONE', 'DEAD')),
    inbox        text COLLATE "C" NOT NULL,
    tenant       text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    ordering_key text COLLATE "C",
    owner        text COLLATE "C",
    fingerprint  bytea NOT NULL,
    last_error   text,
    payload      bytea NOT NULL,
    UNIQUE (inbox, tenant, id)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000
);
ALTER TABLE inbox_row ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE INDEX inbox_status ON inbox_row (status, received_at);
-- What claims read: neither ended rows nor rows behind another of their ordering key are in it.
CREATE INDEX inbox_ready ON inbox_row (inbox, tenant, not_before, number) WHERE status = 'PENDING' AND head;
CREATE UNIQUE INDEX inbox_head ON inbox_row (inbox, tenant, ordering_key) WHERE ordering_key IS NOT NULL AND head;
CREATE INDEX inbox_waiting ON inbox_row (inbox, tenant, ordering_key, number)
    WHERE ordering_key IS NOT NULL AND status = 'PENDING' AND NOT head;

COMMENT ON COLUMN inbox_row.number IS 'the order of arrival';
COMMENT ON COLUMN inbox_row.head IS 'the one of its ordering key that may be worked';

-- Puts and ends of one ordering key take turns: otherwise a row that is put behind another while that one ends would have nobody
-- to make it the head. Who locks a row and a key locks the row first; a put locks the key, and then waits for no row.
CREATE FUNCTION inbox_lock(p_inbox text, p_tenant text, p_key text) RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(E'\n', 'perdura inbox', current_schema(), p_inbox, p_tenant, p_key), 0))
$$;

CREATE FUNCTION inbox_put(
    p_inbox text, p_tenant text, p_id text, p_key text, p_fingerprint bytea, p_payload bytea, p_delay bigint
) RETURNS TABLE (accepted boolean, at inbox_row)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now timestamptz;
BEGIN
    IF p_key IS NOT NULL THEN
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE 'a message with an ordering key is put under READ COMMITTED only' USING ERRCODE = 'invalid_transaction_state';
        END IF;
        PERFORM inbox_lock(p_inbox, p_tenant, p_key);
    END IF;
    LOOP
        -- An insert would wait for whoever changes the row that is there at this moment, who may wait for the key.
        IF p_key IS NOT NULL THEN
            SELECT r.* INTO at FROM inbox_row r WHERE r.inbox = p_inbox AND r.tenant = p_tenant AND r.id = p_id;
            IF FOUND THEN
                accepted := false;
                RETURN NEXT;
                RETURN;
            END IF;
        END IF;
        v_now := inbox_now();
        INSERT INTO inbox_row AS r
            (number, inbox, tenant, id, status, received_at, not_before, ordering_key, head, fingerprint, payload)
        VALUES (nextval('inbox_number'), p_inbox, p_tenant, p_id, 'PENDING', v_now, inbox_later(v_now, p_delay), p_key,
            p_key IS NULL OR NOT EXISTS (
                SELECT FROM inbox_row h
                WHERE h.inbox = p_inbox AND h.tenant = p_tenant AND h.ordering_key = p_key AND h.ordering_key IS NOT NULL AND h.head),
            p_fingerprint, p_payload)
        ON CONFLICT (inbox, tenant, id) DO NOTHING
        RETURNING r.* INTO at;
        accepted := FOUND;
        IF NOT FOUND THEN
            SELECT r.* INTO at FROM inbox_row r
            WHERE r.inbox = p_inbox AND r.tenant = p_tenant AND r.id = p_id;
            -- It was swept between the two.
            CONTINUE WHEN NOT FOUND;
        END IF;
        RETURN NEXT;
        RETURN;
    END LOOP;
END $$;

-- The tenants that share a claim: from one to the next by the index, whatever lies between. First those after the one that was
-- served last, then those from the first up to that one.
CREATE FUNCTION inbox_tenants(p_inbox text, p_limit integer, p_after text, p_now timestamptz) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_tenants text[] := '{}';
    v_tenant text;
    v_due timestamptz;
    v_after text := COALESCE(p_after, '');
    v_last text;
BEGIN
    FOR v_round IN 1..2 LOOP
        WHILE cardinality(v_tenants) < p_limit LOOP
            SELECT r.tenant, r.not_before INTO v_tenant, v_due FROM inbox_row r
            WHERE r.inbox = p_inbox AND r.tenant > v_after AND r.status = 'PENDING' AND r.head
            ORDER BY r.tenant, r.not_before, r.number LIMIT 1;
            EXIT WHEN NOT FOUND OR v_tenant COLLATE "C" > v_last;
            IF v_due <= p_now THEN
                v_tenants := v_tenants || v_tenant;
            END IF;
            v_after := v_tenant;
        END LOOP;
        v_after := '';
        v_last := COALESCE(p_after, '');
    END LOOP;
    RETURN v_tenants;
END $$;

CREATE FUNCTION inbox_claim(p_inbox text, p_owner text, p_limit integer, p_lease bigint, p_after text) RETURNS SETOF inbox_row
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now timestamptz := inbox_now();
    v_tenants text[] := inbox_tenants(p_inbox, p_limit, p_after, v_now);
    v_share integer := p_limit / GREATEST(cardinality(v_tenants), 1);
BEGIN
    RETURN QUERY
    WITH ready AS MATERIALIZED (
        SELECT one.number FROM unnest(v_tenants) AS t (tenant)
        CROSS JOIN LATERAL (
            SELECT r.number FROM inbox_row r
            WHERE r.inbox = p_inbox AND r.tenant = t.tenant AND r.not_before <= v_now AND r.status = 'PENDING' AND r.head
            ORDER BY r.not_before, r.number LIMIT v_share
            FOR UPDATE SKIP LOCKED
        ) AS one
    )
    UPDATE inbox_row r
    SET status = 'DOING', claimed_at = v_now, attempts = r.attempts + 1, lease_until = inbox_later(v_now, p_lease), owner = p_owner,
        epoch = nextval('inbox_number')
    FROM ready WHERE r.number = ready.number AND r.status = 'PENDING'
    RETURNING r.*;
END $$;

CREATE FUNCTION inbox_claim_named(p_inbox text, p_tenant text, p_id text, p_owner text, p_lease bigint)
RETURNS TABLE (claimed boolean, at inbox_row)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now timestamptz := inbox_now();
BEGIN
    LOOP
        UPDATE inbox_row r
        SET status = 'DOING', claimed_at = v_now, attempts = r.attempts + 1, lease_until = inbox_later(v_now, p_lease), owner = p_owner,
            epoch = nextval('inbox_number')
        WHERE r.inbox = p_inbox AND r.tenant = p_tenant AND r.id = p_id AND r.status = 'PENDING' AND r.head AND r.not_before <= v_now
        RETURNING r.* INTO at;
        claimed := FOUND;
        IF NOT FOUND THEN
            SELECT r.* INTO at FROM inbox_row r WHERE r.inbox = p_inbox AND r.tenant = p_tenant AND r.id = p_id;
            IF NOT FOUND THEN
                RETURN;
            END IF;
        END IF;
        -- It became ready between the two.
        CONTINUE WHEN NOT claimed AND at.status = 'PENDING' AND at.head AND at.not_before <= v_now;
        RETURN NEXT;
        RETURN;
    END LOOP;
END $$;

CREATE FUNCTION inbox_beat(p_inboxes text[], p_tenants text[], p_ids text[], p_owners text[], p_epochs bigint[], p_lease bigint)
RETURNS SETOF bigint
LANGUAGE sql VOLATILE AS $$
    UPDATE inbox_row r SET lease_until = inbox_later(inbox_now(), p_lease)
    FROM unnest(p_inboxes, p_tenants, p_ids, p_owners, p_epochs) AS held (inbox, tenant, id, owner, epoch)
    WHERE r.inbox = held.inbox AND r.tenant = held.tenant AND r.id = held.id
        AND r.status = 'DOING' AND r.owner = held.owner AND r.epoch = held.epoch
    RETURNING r.epoch
$$;

-- The head of a key has ended: the next one is the head.
CREATE FUNCTION inbox_promote(p_inbox text, p_tenant text, p_key text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE inbox_row r SET head = true WHERE r.number = (
        SELECT w.number FROM inbox_row w
        WHERE w.inbox = p_inbox AND w.tenant = p_tenant AND w.ordering_key = p_key AND w.ordering_key IS NOT NULL
            AND w.status = 'PENDING' AND NOT w.head
        ORDER BY w.number LIMIT 1);
END $$;

CREATE FUNCTION inbox_end(
    p_inbox text, p_tenant text, p_id text, p_owner text, p_epoch bigint, p_status text, p_error text, p_delay bigint
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now timestamptz := inbox_now();
    v_key text;
BEGIN
    UPDATE inbox_row r
    SET status = p_status, lease_until = NULL, head = (p_status = 'PENDING'),
        processed_at = CASE WHEN p_status = 'PENDING' THEN r.processed_at ELSE v_now END,
        not_before = CASE WHEN p_status = 'PENDING' THEN inbox_later(v_now, p_delay) ELSE r.not_before END,
        last_error = COALESCE(p_error, r.last_error)
    WHERE r.inbox = p_inbox AND r.tenant = p_tenant AND r.id = p_id
        AND r.status = 'DOING' AND r.owner = p_owner AND r.epoch = p_epoch
    RETURNING r.ordering_key INTO v_key;
    IF FOUND THEN
        IF v_key IS NOT NULL AND p_status <> 'PENDING' THEN
            PERFORM inbox_lock(p_inbox, p_tenant, v_key);
            PERFORM inbox_promote(p_inbox, p_tenant, v_key);
        END IF;
        RETURN true;
    END IF;
    -- Told twice that it is done.
    RETURN p_status = 'DONE' AND EXISTS (
        SELECT FROM inbox_row r WHERE r.inbox = p_inbox AND r.tenant = p_tenant AND r.id = p_id
            AND r.status = 'DONE' AND r.owner = p_owner AND r.epoch = p_epoch);
END $$;

-- Whether the transaction that was to end this claim was committed. Waits for one that is on its way.
CREATE FUNCTION inbox_settled(p_inbox text, p_tenant text, p_id text, p_owner text, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM FROM inbox_row r WHERE r.inbox = p_inbox AND r.tenant = p_tenant AND r.id = p_id FOR UPDATE;
    RETURN EXISTS (
        SELECT FROM inbox_row r WHERE r.inbox = p_inbox AND r.tenant = p_tenant AND r.id = p_id
            AND r.status = 'DONE' AND r.owner = p_owner AND r.epoch = p_epoch);
END $$;

CREATE FUNCTION inbox_lapse(p_inbox text, p_attempts_max bigint, p_limit integer, p_error text) RETURNS SETOF inbox_row
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now timestamptz := inbox_now();
    v_number bigint;
    v_row inbox_row;
BEGIN
    -- A row that is locked is being ended or renewed at this moment.
    FOR v_number IN
        SELECT r.number FROM inbox_row r
        WHERE r.status = 'DOING' AND r.inbox = p_inbox AND r.lease_until <= v_now
        ORDER BY r.received_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE inbox_row r
        SET status = CASE WHEN r.attempts >= p_attempts_max THEN 'DEAD' ELSE 'PENDING' END,
            head = r.attempts < p_attempts_max,
            lease_until = NULL,
            processed_at = CASE WHEN r.attempts >= p_attempts_max THEN v_now END,
            not_before = CASE WHEN r.attempts >= p_attempts_max THEN r.not_before ELSE v_now END,
            last_error = p_error
        WHERE r.number = v_number AND r.status = 'DOING' AND r.lease_until <= v_now
        RETURNING r.* INTO v_row;
        CONTINUE WHEN NOT FOUND;
        IF v_row.status = 'DEAD' AND v_row.ordering_key IS NOT NULL THEN
            PERFORM inbox_lock(v_row.inbox, v_row.tenant, v_row.ordering_key);
            PERFORM inbox_promote(v_row.inbox, v_row.tenant, v_row.ordering_key);
        END IF;
        RETURN NEXT v_row;
    END LOOP;
END $$;

CREATE FUNCTION inbox_redrive(p_inbox text, p_tenant text, p_id text) RETURNS TABLE (redriven boolean, at inbox_row)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_key text;
BEGIN
    SELECT r.ordering_key INTO v_key FROM inbox_row r
    WHERE r.inbox = p_inbox AND r.tenant = p_tenant AND r.id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF v_key IS NOT NULL THEN
        PERFORM inbox_lock(p_inbox, p_tenant, v_key);
    END IF;
    UPDATE inbox_row r
    SET status = 'PENDING', number = nextval('inbox_number'), processed_at = NULL, attempts = 0, not_before = inbox_now(),
        head = v_key IS NULL OR NOT EXISTS (
            SELECT FROM inbox_row h
            WHERE h.inbox = p_inbox AND h.tenant = p_tenant AND h.ordering_key = v_key AND h.ordering_key IS NOT NULL AND h.head)
    WHERE r.inbox = p_inbox AND r.tenant = p_tenant AND r.id = p_id AND r.status = 'DEAD'
    RETURNING r.* INTO at;
    redriven := FOUND;
    IF NOT FOUND THEN
        SELECT r.* INTO at FROM inbox_row r WHERE r.inbox = p_inbox AND r.tenant = p_tenant AND r.id = p_id;
    END IF;
    RETURN NEXT;
END $$;

-- The functions mean these tables, whoever calls them. Claims read the index of ready rows also where the planner knows nothing about the
-- tables yet: plans are kept, and one that was made while they were empty would read all rows.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid::regprocedure FROM pg_proc p
        WHERE p.pronamespace = current_schema()::regnamespace AND p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'plpgsql')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp SET enable_seqscan = off SET enable_sort = off '
            'SET enable_bitmapscan = off', f, current_schema());
    END LOOP;
    FOR f IN SELECT p.oid::regprocedure FROM pg_proc p
        WHERE p.pronamespace = current_schema()::regnamespace AND p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'sql')
            AND p.proname IN ('inbox_beat', 'inbox_lock')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    END LOOP;
END $$;

-- The first form of the tables. Runs with the store's schema as the only one in the search path; the functions keep
-- that path, so they mean the same tables whoever calls them.
--
-- The functions say in SQL what the table of the rule says. They count on READ COMMITTED: each statement sees what was
-- committed before it began, and an UPDATE that waited for another one checks its WHERE again on what that one left.

-- The only clock. Tests replace it.
CREATE FUNCTION idempotency_now() RETURNS timestamptz
LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';

-- So many microseconds later, or the end of time.
CREATE FUNCTION idempotency_later(p_at timestamptz, p_by bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$
    SELECT LEAST(p_at + p_by * interval '1 microsecond', timestamptz '9999-12-30 22:00:00.999999+00')
$$;

CREATE TABLE idempotency_agreed (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    secret_check bytea NOT NULL
);

CREATE TYPE idempotency_state AS ENUM ('running', 'unknown', 'completed');

-- Without a cache: numbers are drawn in the order in which they count.
CREATE SEQUENCE idempotency_epoch AS bigint CACHE 1;

-- Answers stand in the same table. A row is narrow for as long as it is rewritten, while it runs; completing it is the
-- last write, and one table makes that one write and a replay one probe. Large answers are moved out by PostgreSQL
-- itself, uncompressed because sealed bytes do not compress. The free space on each page lets a row that is rewritten
-- stay on it. One index has everything in the order in which a sweep has to do with it, so that what runs is in it too;
-- the last has only the few whose outcome is unknown.
CREATE TABLE idempotency_record (
    operation  uuid PRIMARY KEY,
    claimant   uuid NOT NULL,
    epoch      bigint NOT NULL,
    first_at   timestamptz NOT NULL,
    until_at   timestamptz NOT NULL,
    ended_at   timestamptz,
    expires_at timestamptz,
    gone_at    timestamptz,
    sweep_at   timestamptz NOT NULL,
    state      idempotency_state NOT NULL,
    taken_over boolean NOT NULL,
    waited     boolean NOT NULL,
    scope      bytea NOT NULL,
    request    bytea NOT NULL,
    answer     bytea,
    CHECK ((state = 'running') = (gone_at IS NULL)),
    CHECK (answer IS NULL OR state = 'completed')
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000
);
ALTER TABLE idempotency_record ALTER COLUMN answer SET STORAGE EXTERNAL;
CREATE INDEX idempotency_record_sweep ON idempotency_record (sweep_at);
CREATE INDEX idempotency_record_unknown ON idempotency_record (ended_at) WHERE state = 'unknown';

COMMENT ON COLUMN idempotency_record.until_at IS 'while it runs: when the lease runs out';
COMMENT ON COLUMN idempotency_record.waited IS 'somebody waits for it to change: tell the channel';
COMMENT ON COLUMN idempotency_record.gone_at IS 'from then on the record counts as not there';
COMMENT ON COLUMN idempotency_record.sweep_at IS 'when the lease runs out, then the answer expires, then the record is gone';

-- Tells those who wait. Only when somebody does: commits that notify are made one after the other by the server.
CREATE FUNCTION idempotency_tell(p_operation uuid) RETURNS void
LANGUAGE sql SET search_path FROM CURRENT AS $$
    SELECT pg_notify('idempotency_' || current_schema(), p_operation::text)
$$;

-- The record as it stands at a moment.
CREATE TYPE idempotency_standing AS (
    granted    boolean,
    taken_over boolean,
    epoch      bigint,
    first_at   timestamptz,
    scope      bytea,
    request    bytea,
    standing   text,
    lease_left bigint,
    ended_at   timestamptz,
    expires_at timestamptz,
    answer     bytea
);

CREATE FUNCTION idempotency_stands(r idempotency_record, p_granted boolean, p_now timestamptz)
RETURNS idempotency_standing
LANGUAGE plpgsql STABLE AS $$
DECLARE
    s idempotency_standing;
BEGIN
    s.granted := p_granted;
    s.taken_over := r.taken_over;
    s.epoch := r.epoch;
    s.first_at := r.first_at;
    s.scope := r.scope;
    s.request := r.request;
    IF r.state = 'running' THEN
        s.standing := 'running';
        s.lease_left := GREATEST(extract(epoch FROM r.until_at - p_now) * 1000000, 0);
        RETURN s;
    END IF;
    s.ended_at := r.ended_at;
    IF r.state = 'unknown' THEN
        s.standing := 'unknown';
        s.expires_at := r.expires_at;
    ELSIF r.answer IS NOT NULL AND p_now < r.expires_at THEN
        s.standing := 'completed';
        s.expires_at := r.expires_at;
        s.answer := r.answer;
    ELSE
        s.standing := 'expired';
    END IF;
    RETURN s;
END
$$;

-- Reads without a lock and writes only if what it read still stands; otherwise it reads again. So a replay takes no
-- lock and writes nothing, and of two that would write, one does. The clock is read before the row: a row that was
-- changed in between says the same of that moment as of the one when it was changed. The other way round, a lease that
-- was renewed in between would seem to have run out.
CREATE FUNCTION idempotency_claim(
    p_operation uuid, p_scope bytea, p_request bytea, p_claimant uuid, p_lease bigint, p_takeover boolean,
    p_answer bigint, p_tombstone bigint
) RETURNS idempotency_standing
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    r idempotency_record;
    n idempotency_record;
    s idempotency_standing;
    v_now timestamptz;
    v_alone boolean := false;
BEGIN
    LOOP
        v_now := idempotency_now();
        SELECT * INTO r FROM idempotency_record WHERE operation = p_operation;
        IF NOT FOUND THEN
            -- Who inserts is alone with the operation from before it draws its number until it commits, so that no
            -- later grant of the same operation carries a smaller number.
            IF NOT v_alone THEN
                PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || p_operation::text, 0));
                v_alone := true;
                CONTINUE;
            END IF;
            INSERT INTO idempotency_record (operation, claimant, epoch, first_at, until_at, sweep_at, state,
                                            taken_over, waited, scope, request)
            VALUES (p_operation, p_claimant, nextval('idempotency_epoch'), v_now, idempotency_later(v_now, p_lease),
                    idempotency_later(v_now, p_lease), 'running', false, false, p_scope, p_request)
            ON CONFLICT (operation) DO NOTHING
            RETURNING * INTO n;
            IF FOUND THEN
                RETURN idempotency_stands(n, true, v_now);
            END IF;
            CONTINUE;
        END IF;

        IF r.gone_at <= v_now THEN
            -- Past its retention and not swept yet: a new operation in the old row.
            UPDATE idempotency_record
            SET claimant = p_claimant, epoch = nextval('idempotency_epoch'), first_at = v_now,
                until_at = idempotency_later(v_now, p_lease), ended_at = NULL, expires_at = NULL, gone_at = NULL,
                sweep_at = idempotency_later(v_now, p_lease), state = 'running', taken_over = false, waited = false,
                scope = p_scope, request = p_request, answer = NULL
            WHERE operation = p_operation AND epoch = r.epoch AND state = r.state AND gone_at = r.gone_at
            RETURNING * INTO n;
            IF FOUND THEN
                RETURN idempotency_stands(n, true, v_now);
            END IF;
            CONTINUE;
        END IF;

        IF r.request <> p_request OR r.state = 'completed' OR (r.state = 'unknown' AND NOT p_takeover) THEN
            RETURN idempotency_stands(r, false, v_now);
        END IF;
        IF r.state = 'running' AND r.claimant = p_claimant THEN
            RETURN idempotency_stands(r, true, v_now);
        END IF;
        IF r.state = 'running' AND v_now < r.until_at THEN
            IF r.waited THEN
                RETURN idempotency_stands(r, false, v_now);
            END IF;
            -- Whoever ends it after this knows that somebody waits; if it ended before this, it is read again.
            UPDATE idempotency_record SET waited = true
            WHERE operation = p_operation AND epoch = r.epoch AND state = 'running'
            RETURNING * INTO n;
            IF FOUND THEN
                RETURN idempotency_stands(n, false, v_now);
            END IF;
            CONTINUE;
        END IF;

        IF p_takeover THEN
            UPDATE idempotency_record
            SET claimant = p_claimant, epoch = nextval('idempotency_epoch'),
                until_at = idempotency_later(v_now, p_lease), ended_at = NULL, expires_at = NULL, gone_at = NULL,
                sweep_at = idempotency_later(v_now, p_lease), state = 'running', taken_over = true, scope = p_scope
            WHERE operation = p_operation AND epoch = r.epoch AND state = r.state AND until_at = r.until_at
            RETURNING * INTO n;
            IF FOUND THEN
                RETURN idempotency_stands(n, true, v_now);
            END IF;
            CONTINUE;
        END IF;

        UPDATE idempotency_record
        SET state = 'unknown', ended_at = v_now, expires_at = idempotency_later(v_now, p_answer),
            gone_at = idempotency_later(idempotency_later(v_now, p_answer), p_tombstone),
            sweep_at = idempotency_later(idempotency_later(v_now, p_answer), p_tombstone)
        WHERE operation = p_operation AND epoch = r.epoch AND state = 'running' AND until_at = r.until_at
        RETURNING * INTO n;
        IF FOUND THEN
            IF r.waited THEN
                PERFORM idempotency_tell(p_operation);
            END IF;
            s := idempotency_stands(n, false, v_now);
            s.standing := 'lapsed';
            RETURN s;
        END IF;
    END LOOP;
END
$$;

-- Without claiming it. Null where there is none.
CREATE FUNCTION idempotency_look(p_operation uuid) RETURNS idempotency_standing
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    r idempotency_record;
    n idempotency_record;
    v_now timestamptz;
BEGIN
    LOOP
        v_now := idempotency_now();
        SELECT * INTO r FROM idempotency_record WHERE operation = p_operation;
        IF NOT FOUND OR r.gone_at <= v_now THEN
            RETURN NULL;
        END IF;
        IF r.state <> 'running' OR r.waited THEN
            RETURN idempotency_stands(r, false, v_now);
        END IF;
        UPDATE idempotency_record SET waited = true
        WHERE operation = p_operation AND epoch = r.epoch AND state = 'running'
        RETURNING * INTO n;
        IF FOUND THEN
            RETURN idempotency_stands(n, false, v_now);
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION idempotency_renew(p_operation uuid, p_epoch bigint, p_lease bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_until timestamptz := idempotency_later(idempotency_now(), p_lease);
BEGIN
    UPDATE idempotency_record SET until_at = v_until, sweep_at = v_until
    WHERE operation = p_operation AND epoch = p_epoch AND state = 'running';
    RETURN FOUND;
END
$$;

-- An answer, or null for an outcome that cannot be known. Told again, the first answer counts.
CREATE FUNCTION idempotency_complete(
    p_operation uuid, p_epoch bigint, p_answered bytea, p_answer bigint, p_tombstone bigint
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_now timestamptz := idempotency_now();
    v_expires timestamptz := idempotency_later(v_now, p_answer);
    v_gone timestamptz := idempotency_later(v_expires, p_tombstone);
    v_waited boolean;
BEGIN
    UPDATE idempotency_record
    SET state = CASE WHEN p_answered IS NULL THEN 'unknown' ELSE 'completed' END::idempotency_state,
        ended_at = v_now, expires_at = v_expires, gone_at = v_gone, answer = p_answered,
        sweep_at = CASE WHEN p_answered IS NULL THEN v_gone ELSE v_expires END
    WHERE operation = p_operation AND epoch = p_epoch AND state <> 'completed'
      AND (gone_at IS NULL OR gone_at > v_now)
    RETURNING waited INTO v_waited;
    IF NOT FOUND THEN
        RETURN EXISTS (
            SELECT FROM idempotency_record
            WHERE operation = p_operation AND epoch = p_epoch AND state = 'completed' AND gone_at > v_now
        );
    END IF;
    IF v_waited THEN
        PERFORM idempotency_tell(p_operation);
    END IF;
    RETURN true;
END
$$;

-- Completes in the transaction that was lent to a handler. A handler that ended it took the mark with it, and what
-- follows would be recorded apart from what it did.
CREATE FUNCTION idempotency_complete_lent(
    p_operation uuid, p_epoch bigint, p_answered bytea, p_answer bigint, p_tombstone bigint
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
BEGIN
    IF current_setting('idempotency.epoch', true) IS DISTINCT FROM p_epoch::text THEN
        RETURN NULL;
    END IF;
    RETURN idempotency_complete(p_operation, p_epoch, p_answered, p_answer, p_tombstone);
END
$$;

-- Whether a commit whose reply was lost took place. Waits for the transaction, if it is still under way: it holds the
-- row from before its commit was sent.
CREATE FUNCTION idempotency_settled(p_operation uuid, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_state idempotency_state;
BEGIN
    SELECT state INTO v_state FROM idempotency_record
    WHERE operation = p_operation AND epoch = p_epoch FOR UPDATE;
    RETURN COALESCE(v_state = 'completed', false);
END
$$;

CREATE FUNCTION idempotency_release(p_operation uuid, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_waited boolean;
BEGIN
    DELETE FROM idempotency_record
    WHERE operation = p_operation AND epoch = p_epoch AND state <> 'completed'
      AND (gone_at IS NULL OR gone_at > idempotency_now())
    RETURNING waited INTO v_waited;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF v_waited THEN
        PERFORM idempotency_tell(p_operation);
    END IF;
    RETURN true;
END
$$;

CREATE FUNCTION idempotency_erase(p_operation uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_now timestamptz := idempotency_now();
    v_given boolean;
BEGIN
    UPDATE idempotency_record SET answer = NULL, sweep_at = gone_at
    WHERE operation = p_operation AND answer IS NOT NULL
    RETURNING v_now < expires_at INTO v_given;
    RETURN COALESCE(v_given, false);
END
$$;

-- Rows that somebody else works on are left for the next time. A row that is due is locked as it stands by now, so that
-- a renewal came before and it is not due, or comes after and is lost. While it runs a row has no time to be gone at.
CREATE FUNCTION idempotency_sweep(
    p_max bigint, p_answer bigint, p_tombstone bigint, OUT answers bigint, OUT records bigint, OUT lapsed uuid[]
)
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_now timestamptz := idempotency_now();
    v_expires timestamptz := idempotency_later(v_now, p_answer);
    v_gone timestamptz := idempotency_later(v_expires, p_tombstone);
    v_waited uuid[];
BEGIN
    WITH due AS MATERIALIZED (
        SELECT operation, epoch, until_at, waited, state = 'running' AS is_lapsed, gone_at <= v_now AS is_gone
        FROM idempotency_record WHERE sweep_at <= v_now
        ORDER BY sweep_at LIMIT p_max FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM idempotency_record r USING due WHERE r.operation = due.operation AND due.is_gone
    ), bared AS (
        UPDATE idempotency_record r SET answer = NULL, sweep_at = r.gone_at
        FROM due WHERE r.operation = due.operation AND NOT due.is_gone
    ), unended AS (
        UPDATE idempotency_record r
        SET state = 'unknown', ended_at = v_now, expires_at = v_expires, gone_at = v_gone, sweep_at = v_gone
        FROM due
        WHERE r.operation = due.operation AND due.is_lapsed
          AND r.epoch = due.epoch AND r.state = 'running' AND r.until_at = due.until_at
        RETURNING r.operation, r.waited
    )
    SELECT (SELECT count(*) FROM due WHERE NOT is_gone), (SELECT count(*) FROM due WHERE is_gone),
           COALESCE(array_agg(operation), '{}'), COALESCE(array_agg(operation) FILTER (WHERE waited), '{}')
    INTO answers, records, lapsed, v_waited FROM unended;
    PERFORM idempotency_tell(operation) FROM unnest(v_waited) AS operation;
END
$$;

-- Those first that have been unknown for longest.
CREATE FUNCTION idempotency_unknown(p_max bigint) RETURNS TABLE (operation uuid, stands idempotency_standing)
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_now timestamptz := idempotency_now();
BEGIN
    RETURN QUERY
    SELECT r.operation, idempotency_stands(r, false, v_now) FROM idempotency_record r
    WHERE r.state = 'unknown' AND r.gone_at > v_now
    ORDER BY r.ended_at LIMIT p_max;
END
$$;

CREATE FUNCTION idempotency_agree(p_check bytea) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    v_check bytea;
BEGIN
    INSERT INTO idempotency_agreed (secret_check) VALUES (p_check) ON CONFLICT (one) DO NOTHING;
    SELECT secret_check INTO v_check FROM idempotency_agreed;
    RETURN v_check = p_check;
END
$$;

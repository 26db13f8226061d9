-- Format 1.
--
-- `leases.body` is the row as JSON; every other column is taken from it, so that it can be found by
-- index. Times are milliseconds since the Unix epoch. No row has a null deadline: what has none
-- (a template, a closed row) has the last point in time.

CREATE TABLE ledger (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    installation TEXT NOT NULL,
    -- Keyed digests, which betray nothing.
    secret_digest TEXT NOT NULL,
    machine TEXT,
    directory TEXT NOT NULL,
    -- Rises when the ledger is opened.
    generation INTEGER NOT NULL,
    -- Rises with each transaction.
    commits INTEGER NOT NULL,
    -- The sequence number of the last event.
    sequence INTEGER NOT NULL DEFAULT 0,
    time_floor INTEGER NOT NULL,
    brake_on INTEGER NOT NULL DEFAULT 0,
    -- Why the ledger is in restored mode; null when it is not.
    restored TEXT
) STRICT;

CREATE TABLE owners (
    owner INTEGER PRIMARY KEY,
    company TEXT NOT NULL,
    environment TEXT NOT NULL,
    open INTEGER NOT NULL DEFAULT 0 CHECK (open >= 0),
    UNIQUE (company, environment)
) STRICT;

CREATE TABLE homes (
    home INTEGER PRIMARY KEY,
    body TEXT NOT NULL UNIQUE,
    open INTEGER NOT NULL DEFAULT 0 CHECK (open >= 0)
) STRICT;

CREATE TABLE leases (
    lease INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    open INTEGER NOT NULL CHECK (open = (state <> 'closed')),
    owner INTEGER NOT NULL REFERENCES owners,
    home INTEGER NOT NULL REFERENCES homes,
    acquire_key TEXT,
    sandbox TEXT,
    attempt TEXT,
    nodes TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    events_removed INTEGER NOT NULL DEFAULT 0,
    body TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX leases_by_key ON leases (owner, home, acquire_key)
    WHERE acquire_key IS NOT NULL;
CREATE UNIQUE INDEX leases_by_pin ON leases (home, sandbox) WHERE open AND sandbox IS NOT NULL;
CREATE INDEX leases_open ON leases (id) WHERE open;
CREATE INDEX leases_by_owner ON leases (owner, id);
CREATE INDEX leases_open_by_owner ON leases (owner, id) WHERE open;
CREATE INDEX leases_by_state ON leases (state, id);
CREATE INDEX leases_due ON leases (due_at, id) WHERE open;

CREATE TRIGGER leases_opened AFTER INSERT ON leases WHEN NEW.open BEGIN
    UPDATE owners SET open = open + 1 WHERE owner = NEW.owner;
    UPDATE homes SET open = open + 1 WHERE home = NEW.home;
END;

CREATE TRIGGER leases_turned AFTER UPDATE OF open ON leases WHEN NEW.open <> OLD.open BEGIN
    UPDATE owners SET open = open + NEW.open - OLD.open WHERE owner = NEW.owner;
    UPDATE homes SET open = open + NEW.open - OLD.open WHERE home = NEW.home;
END;

CREATE TRIGGER leases_stay BEFORE DELETE ON leases BEGIN
    SELECT RAISE(ABORT, 'a lease stays, as a tombstone');
END;

-- The nodes that open rows name.
CREATE TABLE lease_nodes (
    node TEXT NOT NULL,
    lease INTEGER NOT NULL REFERENCES leases,
    PRIMARY KEY (node, lease)
) STRICT, WITHOUT ROWID;

-- Every sandbox that a row was ever pinned to, and every name that it ever tried.
CREATE TABLE pins (
    home INTEGER NOT NULL REFERENCES homes,
    sandbox TEXT NOT NULL,
    lease INTEGER NOT NULL REFERENCES leases,
    PRIMARY KEY (home, sandbox, lease)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
    home INTEGER NOT NULL REFERENCES homes,
    name TEXT NOT NULL,
    lease INTEGER NOT NULL REFERENCES leases,
    PRIMARY KEY (home, name, lease)
) STRICT, WITHOUT ROWID;

-- Kept by lease, so that a history is read and removed in one piece. The sequence is counted in
-- `ledger`, which no removal sets back.
CREATE TABLE events (
    lease INTEGER NOT NULL REFERENCES leases,
    sequence INTEGER NOT NULL,
    at INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    actor TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (lease, sequence)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER events_stand BEFORE UPDATE ON events BEGIN
    SELECT RAISE(ABORT, 'an event is never changed');
END;

CREATE TRIGGER events_of_open_leases_stay BEFORE DELETE ON events
WHEN (SELECT open FROM leases WHERE lease = OLD.lease) BEGIN
    SELECT RAISE(ABORT, 'the history of an open lease is complete');
END;

CREATE TABLE nodes (
    node TEXT PRIMARY KEY,
    started_at INTEGER NOT NULL,
    boot TEXT NOT NULL,
    machine TEXT
) STRICT, WITHOUT ROWID;

-- What the brake has counted.
CREATE TABLE removals (
    at INTEGER NOT NULL,
    lease TEXT NOT NULL,
    PRIMARY KEY (at, lease)
) STRICT, WITHOUT ROWID;

-- Events in the order in which they happened, each with the one before it of the same lease: what a
-- transaction adds lies together, on one or two pages. Kept by lease, each event was on a page of
-- its own, and each page is written and synced.
CREATE TABLE events_in_order (
    sequence INTEGER PRIMARY KEY,
    lease INTEGER NOT NULL REFERENCES leases,
    previous INTEGER CHECK (previous < sequence),
    at INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    actor TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

INSERT INTO events_in_order (sequence, lease, previous, at, epoch, actor, body)
    SELECT sequence, lease, lag(sequence) OVER (PARTITION BY lease ORDER BY sequence),
        at, epoch, actor, body
    FROM events ORDER BY sequence;

ALTER TABLE leases ADD COLUMN last_event INTEGER;
UPDATE leases SET last_event = (SELECT max(sequence) FROM events WHERE events.lease = leases.lease);

DROP TABLE events;
ALTER TABLE events_in_order RENAME TO events;

CREATE TRIGGER events_stand BEFORE UPDATE ON events BEGIN
    SELECT RAISE(ABORT, 'an event is never changed');
END;

CREATE TRIGGER events_of_open_leases_stay BEFORE DELETE ON events
WHEN (SELECT open FROM leases WHERE lease = OLD.lease) BEGIN
    SELECT RAISE(ABORT, 'the history of an open lease is complete');
END;

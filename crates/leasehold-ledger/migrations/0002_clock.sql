-- Both clocks of the machine as the last writer saw them, so that a process that starts after the
-- clock jumped knows of it. In milliseconds; they mean something only on the boot that is named.
ALTER TABLE ledger ADD COLUMN clock_boot TEXT;
ALTER TABLE ledger ADD COLUMN clock_wall INTEGER;
ALTER TABLE ledger ADD COLUMN clock_monotonic INTEGER;
ALTER TABLE ledger ADD COLUMN clock_jumped_at INTEGER;
-- When the ledger was last found to be behind, copied or from another machine, by its own time.
ALTER TABLE ledger ADD COLUMN restored_at INTEGER;

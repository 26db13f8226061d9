-- What tells the sandbox apart, so that a row whose body is damaged can still be ended.
ALTER TABLE pins ADD COLUMN birth TEXT;
UPDATE pins SET birth = (
    SELECT json_extract(body, '$.pin.birth') FROM leases
    WHERE leases.lease = pins.lease AND leases.sandbox = pins.sandbox AND json_valid(body)
);

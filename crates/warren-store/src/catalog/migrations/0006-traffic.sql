-- How traffic meets a sandbox, and what a pause of it keeps, are fields of its record. They were part of what E2B's face
-- remembered in an annotation, which is a text; one that cannot be read stays, and nothing is open.
UPDATE sandboxes
SET record = (
    SELECT json_set(record,
        '$.traffic', json_set(
            json(coalesce(json_extract(e2b, '$.traffic'), '{}')),
            '$.wake',
            json(iif(json_extract(e2b, '$.auto_resume') = 1,
                json_object('lifetime_s', coalesce(json_extract(e2b, '$.timeout_s'), 0)), 'null'))),
        '$.pause_keeps', iif(json_extract(e2b, '$.cold_pause') = 1, 'files', 'memory'),
        -- A text again, and no part of the record's own JSON.
        '$.annotations.e2b', json_remove(e2b, '$.traffic', '$.auto_resume', '$.cold_pause', '$.timeout_s') || '')
    FROM (SELECT json_extract(record, '$.annotations.e2b') AS e2b))
WHERE json_valid(record) AND json_valid(json_extract(record, '$.annotations.e2b'));

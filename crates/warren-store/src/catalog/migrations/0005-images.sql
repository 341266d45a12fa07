-- Images with their builds and tags, and states between the steps of builds that later builds may begin with.

CREATE TABLE images (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT,
    created INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    -- 1 while a build has begun and not ended.
    building INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT;
CREATE UNIQUE INDEX images_by_name ON images (owner, name) WHERE name IS NOT NULL;
CREATE INDEX images_by_age ON images (owner, created DESC, id DESC);
CREATE INDEX images_building ON images (owner, id) WHERE building = 1;

CREATE TABLE image_steps (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    used INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX image_steps_by_use ON image_steps (owner, used, key);

-- They were one note for each owner, in the words of E2B. One that cannot be read stays where it is.
-- No server has built anything while this is done, so builds that had begun have failed.
INSERT INTO images (owner, id, name, created, generation, building, record)
SELECT
    substr(settings.name, 22),
    template.key,
    json_extract(template.value, '$.name'),
    json_extract(template.value, '$.created_unix_ms'),
    1,
    0,
    json_remove(
        json_set(template.value,
            '$.id', template.key,
            '$.owner', substr(settings.name, 22),
            '$.generation', 1,
            '$.origin', json_extract(template.value, '$.kind'),
            '$.cpus', json_extract(template.value, '$.cpus') * 1000,
            '$.memory', json_extract(template.value, '$.memory_mb') * 1048576,
            '$.builds', json((
                SELECT json_group_object(build.key, json(iif(
                    json_extract(build.value, '$.outcome') = 'begun',
                    json_set(build.value, '$.outcome', json_object('failed', json_object(
                        'message', 'the server stopped while it was built: build it again', 'step', ''))),
                    build.value)))
                FROM json_each(template.value, '$.builds') AS build))),
        '$.kind', '$.memory_mb')
FROM settings, json_each(settings.value, '$.templates') AS template
WHERE settings.name LIKE 'server.e2b.templates.%' AND json_valid(settings.value);

INSERT OR REPLACE INTO image_steps (owner, key, used, record)
SELECT
    substr(settings.name, 22),
    json_extract(layer.value, '$.key'),
    layer.key,
    json_set(layer.value, '$.used_unix_ms', layer.key)
FROM settings, json_each(settings.value, '$.layers') AS layer
WHERE settings.name LIKE 'server.e2b.templates.%' AND json_valid(settings.value);

DELETE FROM settings WHERE name LIKE 'server.e2b.templates.%' AND json_valid(value);

-- Their snapshots were known by their names. Those of a note that cannot be read belong to nobody now, and stay.
UPDATE snapshots
SET record = json_set(record, '$.reason', 'image')
WHERE name LIKE 'e2b template %'
    AND owner NOT IN (SELECT substr(name, 22) FROM settings WHERE name LIKE 'server.e2b.templates.%');

-- What sandboxes start with, and which build is done in them, were annotations.
UPDATE sandboxes
SET record = json_remove(
    json_set(record, '$.start', json(json_extract(record, '$.annotations.e2b_start'))),
    '$.annotations.e2b_start')
WHERE json_valid(json_extract(record, '$.annotations.e2b_start'));
UPDATE sandboxes
SET record = json_remove(
    json_set(record, '$.build', json_extract(record, '$.annotations.e2b_build')),
    '$.annotations.e2b_build')
WHERE json_extract(record, '$.annotations.e2b_build') IS NOT NULL;

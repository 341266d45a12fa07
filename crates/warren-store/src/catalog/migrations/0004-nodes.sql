-- The node that holds each sandbox, snapshot and layer, and tables for what lay among the settings.
-- The books of E2B templates stay there. What cannot be read any more, and what speaks of sandboxes
-- whose records are forgotten, is left out.

-- The node that this catalog belongs to: what the engine called its instance, if it was ever
-- started.
ALTER TABLE identity ADD COLUMN node TEXT NOT NULL DEFAULT '';
UPDATE identity SET node = coalesce((SELECT value FROM settings WHERE name = 'instance'), instance);

ALTER TABLE sandboxes ADD COLUMN node TEXT NOT NULL DEFAULT '';
UPDATE sandboxes SET
    node = (SELECT node FROM identity),
    record = iif(json_valid(record), json_set(record, '$.node', (SELECT node FROM identity)), record);

ALTER TABLE snapshots ADD COLUMN node TEXT NOT NULL DEFAULT '';
UPDATE snapshots SET
    node = (SELECT node FROM identity),
    record = iif(json_valid(record), json_set(record, '$.node', (SELECT node FROM identity)), record);
DROP INDEX snapshots_by_template;
CREATE INDEX snapshots_by_template ON snapshots (node, template);

-- As before, but each node counts its own.
CREATE TABLE node_layers (
    number INTEGER PRIMARY KEY,
    node TEXT NOT NULL,
    id TEXT NOT NULL,
    UNIQUE (node, id)
) STRICT;
INSERT INTO node_layers (number, node, id) SELECT number, (SELECT node FROM identity), id FROM layers;
CREATE TABLE node_snapshot_layers (
    layer INTEGER NOT NULL REFERENCES node_layers (number),
    -- Its number. No second index for a foreign key: a snapshot's record lists its layers.
    snapshot INTEGER NOT NULL,
    PRIMARY KEY (layer, snapshot)
) STRICT, WITHOUT ROWID;
INSERT INTO node_snapshot_layers (layer, snapshot) SELECT layer, snapshot FROM snapshot_layers;
DROP TABLE snapshot_layers;
DROP TABLE layers;
ALTER TABLE node_layers RENAME TO layers;
ALTER TABLE node_snapshot_layers RENAME TO snapshot_layers;

CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    record TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO nodes (id, record)
    SELECT node, json_object(
        'clock_anchor',
        json((SELECT value FROM settings WHERE name = 'clock_anchor' AND json_valid(value)
            AND json_type(value, '$.boot_id') = 'text' AND json_type(value, '$.boot_ms') = 'integer'
            AND json_type(value, '$.unix_ms') = 'integer')),
        'snapshots_boot', (SELECT value FROM settings WHERE name = 'snapshots_boot'),
        'local_key', (SELECT id FROM keys WHERE id = (SELECT value FROM settings WHERE name = 'server.local_key')))
    FROM identity;

CREATE TABLE default_sandboxes (
    owner TEXT PRIMARY KEY,
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX default_sandboxes_by_sandbox ON default_sandboxes (sandbox);
INSERT INTO default_sandboxes (owner, sandbox)
    SELECT sandboxes.owner, sandboxes.id FROM settings
    JOIN sandboxes ON sandboxes.id = settings.value
    WHERE settings.name = 'default-sandbox/' || sandboxes.owner;

-- Ports that are reached in another way than the default.
CREATE TABLE ports (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    port INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535),
    public INTEGER NOT NULL,
    host TEXT,
    PRIMARY KEY (sandbox, port)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO ports (sandbox, port, public, host)
    SELECT sandboxes.id, CAST(port.key AS INTEGER), coalesce(port.value ->> '$.public' = 1, 0), port.value ->> '$.host'
    FROM settings
    JOIN json_each(iif(json_valid(settings.value), settings.value, '{}')) AS book
    JOIN sandboxes ON sandboxes.id = book.key AND sandboxes.owner = book.value ->> '$.owner'
    JOIN json_each(book.value, '$.ports') AS port
    WHERE settings.name = 'server.ports';

-- Where a sandbox has been: a host's name or address, and a port, zero where the protocol has none.
CREATE TABLE reached (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    host TEXT NOT NULL,
    port INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535),
    PRIMARY KEY (sandbox, host, port)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO reached (sandbox, host, port)
    SELECT sandboxes.id,
        coalesce(destination.value ->> '$.place.name', destination.value ->> '$.place.address'),
        destination.value ->> '$.port'
    FROM settings
    JOIN sandboxes ON settings.name = 'network_reached.' || sandboxes.id
    JOIN json_each(iif(json_valid(settings.value), settings.value, '[]')) AS destination;

DELETE FROM settings
    WHERE name IN ('instance', 'clock_anchor', 'snapshots_boot', 'server.local_key', 'server.ports')
    OR name GLOB 'default-sandbox/*' OR name GLOB 'network_reached.*';

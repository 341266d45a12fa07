-- Snapshots outlive their sandboxes, so nothing here refers to one; the journal and the tool calls go with theirs.

CREATE TABLE snapshots (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    session TEXT,
    parent TEXT,
    name TEXT,
    template TEXT NOT NULL,
    created INTEGER NOT NULL,
    durable INTEGER NOT NULL,
    damaged INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX snapshots_by_owner ON snapshots (owner, created DESC, id DESC);
CREATE INDEX snapshots_by_sandbox ON snapshots (sandbox, created DESC, id DESC);
CREATE INDEX snapshots_by_session ON snapshots (session, created DESC, id DESC) WHERE session IS NOT NULL;
CREATE INDEX snapshots_by_parent ON snapshots (parent) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX snapshots_by_name ON snapshots (sandbox, name) WHERE name IS NOT NULL;
CREATE INDEX snapshots_named ON snapshots (owner, created DESC, id DESC) WHERE name IS NOT NULL;
CREATE INDEX snapshots_by_template ON snapshots (template);
CREATE INDEX snapshots_undurable ON snapshots (created) WHERE durable = 0 AND damaged = 0;

-- The layers that snapshots stand on, and no others. Their numbers follow each other as they are made, so that those of one
-- stack are neighbours below and a new snapshot touches few pages.
CREATE TABLE layers (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE snapshot_layers (
    layer INTEGER NOT NULL REFERENCES layers (number),
    -- Its number. No second index for a foreign key: a snapshot's record lists its layers.
    snapshot INTEGER NOT NULL,
    PRIMARY KEY (layer, snapshot)
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    owner TEXT NOT NULL,
    -- 1 until it has ended and the state that it left is known.
    open INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (sandbox, number)
) STRICT;
CREATE INDEX journal_open ON journal (sandbox, number) WHERE open = 1;

CREATE TABLE tool_calls (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    call TEXT NOT NULL,
    owner TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    at INTEGER NOT NULL,
    -- Absent while the first call goes on.
    answer TEXT,
    PRIMARY KEY (sandbox, call)
) STRICT;

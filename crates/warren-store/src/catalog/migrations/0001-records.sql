-- Each record is a JSON document; beside it stands what queries look for. `created` and `id` order the lists.

CREATE TABLE identity (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    instance TEXT NOT NULL
) STRICT;

CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    created INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    status TEXT NOT NULL,
    -- 1 once it ended for good: nothing runs and no files are kept.
    over INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX sandboxes_by_owner ON sandboxes (owner, created DESC, id DESC);
CREATE INDEX sandboxes_unfinished ON sandboxes (owner, created DESC, id DESC) WHERE over = 0;
CREATE INDEX sandboxes_over ON sandboxes (ended) WHERE over = 1;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    client TEXT NOT NULL,
    created INTEGER NOT NULL,
    open INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_by_owner ON sessions (owner, created DESC, id DESC);
CREATE INDEX sessions_open ON sessions (owner, created DESC, id DESC) WHERE open = 1;
CREATE INDEX sessions_by_sandbox ON sessions (sandbox, created DESC, id DESC);

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    record TEXT NOT NULL,
    UNIQUE (session, number)
) STRICT;

CREATE TABLE idempotency (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (at);
CREATE INDEX idempotency_by_session ON idempotency (session);

CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    created INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX keys_by_owner ON keys (owner, created, id);

-- AUTOINCREMENT: SQLite then remembers the greatest number after its event is forgotten.
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    owner TEXT NOT NULL,
    sandbox TEXT,
    session TEXT,
    event TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_owner ON events (owner, number);
CREATE INDEX events_by_age ON events (at);

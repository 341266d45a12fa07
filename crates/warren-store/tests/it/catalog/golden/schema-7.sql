PRAGMA foreign_keys = OFF;
BEGIN;
CREATE TABLE default_sandboxes (
    owner TEXT PRIMARY KEY,
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    owner TEXT NOT NULL,
    sandbox TEXT,
    session TEXT,
    event TEXT NOT NULL
) STRICT;
CREATE TABLE idempotency (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE identity (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    instance TEXT NOT NULL
, node TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE image_steps (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    used INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;
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
CREATE TABLE journal (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    owner TEXT NOT NULL,
    -- 1 until it has ended and the state that it left is known.
    open INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (sandbox, number)
) STRICT;
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    created INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE TABLE "layers" (
    number INTEGER PRIMARY KEY,
    node TEXT NOT NULL,
    id TEXT NOT NULL,
    UNIQUE (node, id)
) STRICT;
CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    record TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE ports (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    port INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535),
    public INTEGER NOT NULL,
    host TEXT,
    PRIMARY KEY (sandbox, port)
) STRICT, WITHOUT ROWID;
CREATE TABLE reached (
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    host TEXT NOT NULL,
    port INTEGER NOT NULL CHECK (port BETWEEN 0 AND 65535),
    PRIMARY KEY (sandbox, host, port)
) STRICT, WITHOUT ROWID;
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    record TEXT NOT NULL,
    UNIQUE (session, number)
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
, node TEXT NOT NULL DEFAULT '', name TEXT) STRICT;
CREATE TABLE secret_key (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    proof BLOB NOT NULL
) STRICT;
CREATE TABLE secrets (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    record TEXT NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    client TEXT NOT NULL,
    created INTEGER NOT NULL,
    open INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE "snapshot_layers" (
    layer INTEGER NOT NULL REFERENCES "layers" (number),
    -- Its number. No second index for a foreign key: a snapshot's record lists its layers.
    snapshot INTEGER NOT NULL,
    PRIMARY KEY (layer, snapshot)
) STRICT, WITHOUT ROWID;
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
, node TEXT NOT NULL DEFAULT '') STRICT;
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
CREATE INDEX default_sandboxes_by_sandbox ON default_sandboxes (sandbox);
CREATE INDEX events_by_age ON events (at);
CREATE INDEX events_by_owner ON events (owner, number);
CREATE INDEX idempotency_by_age ON idempotency (at);
CREATE INDEX idempotency_by_session ON idempotency (session);
CREATE INDEX image_steps_by_use ON image_steps (owner, used, key);
CREATE INDEX images_building ON images (owner, id) WHERE building = 1;
CREATE INDEX images_by_age ON images (owner, created DESC, id DESC);
CREATE UNIQUE INDEX images_by_name ON images (owner, name) WHERE name IS NOT NULL;
CREATE INDEX journal_open ON journal (sandbox, number) WHERE open = 1;
CREATE INDEX keys_by_owner ON keys (owner, created, id);
CREATE UNIQUE INDEX sandboxes_by_name ON sandboxes (owner, name) WHERE over = 0 AND name IS NOT NULL;
CREATE INDEX sandboxes_by_owner ON sandboxes (owner, created DESC, id DESC);
CREATE INDEX sandboxes_over ON sandboxes (ended) WHERE over = 1;
CREATE INDEX sandboxes_unfinished ON sandboxes (owner, created DESC, id DESC) WHERE over = 0;
CREATE INDEX sessions_by_owner ON sessions (owner, created DESC, id DESC);
CREATE INDEX sessions_by_sandbox ON sessions (sandbox, created DESC, id DESC);
CREATE INDEX sessions_open ON sessions (owner, created DESC, id DESC) WHERE open = 1;
CREATE UNIQUE INDEX snapshots_by_name ON snapshots (sandbox, name) WHERE name IS NOT NULL;
CREATE INDEX snapshots_by_owner ON snapshots (owner, created DESC, id DESC);
CREATE INDEX snapshots_by_parent ON snapshots (parent) WHERE parent IS NOT NULL;
CREATE INDEX snapshots_by_sandbox ON snapshots (sandbox, created DESC, id DESC);
CREATE INDEX snapshots_by_session ON snapshots (session, created DESC, id DESC) WHERE session IS NOT NULL;
CREATE INDEX snapshots_by_template ON snapshots (node, template);
CREATE INDEX snapshots_named ON snapshots (owner, created DESC, id DESC) WHERE name IS NOT NULL;
CREATE INDEX snapshots_undurable ON snapshots (created) WHERE durable = 0 AND damaged = 0;
INSERT INTO default_sandboxes (owner, sandbox) VALUES ('ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab');
INSERT INTO events (number, at, owner, sandbox, session, event) VALUES (1, 2001, 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', NULL, '{"event":"sandbox_created","template":"host","backend":"native"}');
INSERT INTO events (number, at, owner, sandbox, session, event) VALUES (2, 2002, 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'sess-00000000-0000-4000-8000-000000000001', '{"event":"sandbox_ready","took_ms":41}');
INSERT INTO events (number, at, owner, sandbox, session, event) VALUES (3, 2003, 'bob', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', NULL, '{"event":"sandbox_paused","by":"request"}');
INSERT INTO events (number, at, owner, sandbox, session, event) VALUES (4, 2004, 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'sess-00000000-0000-4000-8000-000000000001', '{"event":"sandbox_died","cause":{"kind":"oom"},"detail":"too much","files_kept":true}');
INSERT INTO events (number, at, owner, sandbox, session, event) VALUES (5, 2005, 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', NULL, '{"event":"sandbox_forked","snapshot":"snap-00000000-0000-4000-8000-000000000001","count":3}');
INSERT INTO events (number, at, owner, sandbox, session, event) VALUES (6, 2006, 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'sess-00000000-0000-4000-8000-000000000001', '{"event":"history_not_kept","entries":[1,2],"reason":"busy"}');
INSERT INTO events (number, at, owner, sandbox, session, event) VALUES (7, 2007, 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', NULL, '{"event":"exec_ended","process":7,"exit_code":-1,"duration_ms":12}');
INSERT INTO events (number, at, owner, sandbox, session, event) VALUES (8, 2008, 'ann', NULL, 'sess-00000000-0000-4000-8000-000000000001', '{"event":"run_recorded","run":1,"tokens":2,"duration_ms":3}');
INSERT INTO idempotency (owner, key, fingerprint, session, at) VALUES ('ann', 'create-1', 'a1b2', 'sess-00000000-0000-4000-8000-000000000001', 5000);
INSERT INTO identity (one, instance, node) VALUES (1, 'db1f53bd73cb966cada4c3d1b0ddfff9', 'db1f53bd73cb966cada4c3d1b0ddfff9');
INSERT INTO image_steps (owner, key, used, record) VALUES ('ann', 'k1', 4, '{"key":"k1","snapshot":"snap-00000000-0000-4000-8000-000000000001","template":"host","env":{"A":"b"},"user":null,"workdir":"/srv","used_unix_ms":4}');
INSERT INTO images (owner, id, name, created, generation, building, record) VALUES ('ann', 't1', 'web', 1, 1, 1, '{"id":"t1","owner":"ann","generation":1,"name":"web","origin":"steps","created_unix_ms":1,"updated_unix_ms":2,"cpus":2000,"memory":536870912,"build_count":3,"tags":{"default":{"build":"00000000-0000-4000-8000-000000000001","since_unix_ms":2}},"builds":{"00000000-0000-4000-8000-000000000001":{"created_unix_ms":2,"outcome":{"ready":{"snapshot":"snap-00000000-0000-4000-8000-000000000001","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","template":"host","env":{"A":"b"},"user":null,"workdir":"/srv","start":{"command":"serve"}}}},"00000000-0000-4000-8000-000000000002":{"created_unix_ms":3,"outcome":{"failed":{"message":"no \"make\"","step":"2"}}},"00000000-0000-4000-8000-000000000003":{"created_unix_ms":3,"outcome":{"begun":{"node":"db1f53bd73cb966cada4c3d1b0ddfff9"}},"tags":["next"]}}}');
INSERT INTO journal (sandbox, number, owner, open, record) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 1, 'ann', 0, '{"number":0,"owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","session":"sess-00000000-0000-4000-8000-000000000001","turn":1,"action":{"action":"exec","command":"make -j1","process":1},"by":"client","began_unix_ms":1000,"ended_unix_ms":2000,"outcome":{"exit_code":-1,"detail":"killed by \"9\"\n"},"before":"snap-00000000-0000-4000-8000-000000000001","after":"snap-00000000-0000-4000-8000-000000000002","not_kept":"a program ran on"}');
INSERT INTO journal (sandbox, number, owner, open, record) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 2, 'ann', 0, '{"number":0,"owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","session":"sess-00000000-0000-4000-8000-000000000001","turn":1,"action":{"action":"files","operation":"rename","path":"/a b","to":"/ü","bytes":12,"files":null},"by":"client","began_unix_ms":1000,"ended_unix_ms":2000,"outcome":{"exit_code":-1,"detail":"killed by \"9\"\n"},"before":"snap-00000000-0000-4000-8000-000000000001","after":"snap-00000000-0000-4000-8000-000000000002","not_kept":"a program ran on"}');
INSERT INTO journal (sandbox, number, owner, open, record) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 3, 'ann', 0, '{"number":0,"owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","session":"sess-00000000-0000-4000-8000-000000000001","turn":1,"action":{"action":"tool","tool":"edit","call":"call-1","summary":"{}"},"by":"client","began_unix_ms":1000,"ended_unix_ms":2000,"outcome":{"exit_code":-1,"detail":"killed by \"9\"\n"},"before":"snap-00000000-0000-4000-8000-000000000001","after":"snap-00000000-0000-4000-8000-000000000002","not_kept":"a program ran on"}');
INSERT INTO journal (sandbox, number, owner, open, record) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 4, 'ann', 0, '{"number":0,"owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","session":"sess-00000000-0000-4000-8000-000000000001","turn":1,"action":{"action":"turn"},"by":"client","began_unix_ms":1000,"ended_unix_ms":2000,"outcome":{"exit_code":-1,"detail":"killed by \"9\"\n"},"before":"snap-00000000-0000-4000-8000-000000000001","after":"snap-00000000-0000-4000-8000-000000000002","not_kept":"a program ran on"}');
INSERT INTO journal (sandbox, number, owner, open, record) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 5, 'ann', 0, '{"number":0,"owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","session":"sess-00000000-0000-4000-8000-000000000001","turn":1,"action":{"action":"rollback","to":"snap-00000000-0000-4000-8000-000000000001"},"by":"client","began_unix_ms":1000,"ended_unix_ms":2000,"outcome":{"exit_code":-1,"detail":"killed by \"9\"\n"},"before":"snap-00000000-0000-4000-8000-000000000001","after":"snap-00000000-0000-4000-8000-000000000002","not_kept":"a program ran on"}');
INSERT INTO journal (sandbox, number, owner, open, record) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 6, 'ann', 1, '{"number":0,"owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","session":null,"turn":1,"action":{"action":"exec","command":"make -j6","process":6},"by":"client","began_unix_ms":6000,"ended_unix_ms":null,"outcome":null,"before":null,"after":null}');
INSERT INTO keys (id, owner, hash, created, record) VALUES ('key-00000000-0000-4000-8000-000000000001', 'ann', '0000000000000000000000000000000000000000000000000000000000000001', 1000, '{"id":"key-00000000-0000-4000-8000-000000000001","owner":"ann","name":"key 1","scope":"admin","hash":"0000000000000000000000000000000000000000000000000000000000000001","hint":"0123","created_unix_ms":1000,"revoked_unix_ms":null}');
INSERT INTO keys (id, owner, hash, created, record) VALUES ('key-00000000-0000-4000-8000-000000000002', 'ann', '0000000000000000000000000000000000000000000000000000000000000002', 2000, '{"id":"key-00000000-0000-4000-8000-000000000002","owner":"ann","name":"key 2","scope":"read","hash":"0000000000000000000000000000000000000000000000000000000000000002","hint":"0123","created_unix_ms":2000,"revoked_unix_ms":8000}');
INSERT INTO keys (id, owner, hash, created, record) VALUES ('key-00000000-0000-4000-8000-000000000003', 'bob', '0000000000000000000000000000000000000000000000000000000000000003', 3000, '{"id":"key-00000000-0000-4000-8000-000000000003","owner":"bob","name":"key 3","scope":"use","hash":"0000000000000000000000000000000000000000000000000000000000000003","hint":"0123","created_unix_ms":3000,"revoked_unix_ms":null}');
INSERT INTO layers (number, node, id) VALUES (1, 'db1f53bd73cb966cada4c3d1b0ddfff9', 'layer-00000000-0000-4000-8000-000000000001');
INSERT INTO layers (number, node, id) VALUES (2, 'db1f53bd73cb966cada4c3d1b0ddfff9', 'layer-00000000-0000-4000-8000-000000000002');
INSERT INTO layers (number, node, id) VALUES (3, 'db1f53bd73cb966cada4c3d1b0ddfff9', 'layer-00000000-0000-4000-8000-000000000004');
INSERT INTO layers (number, node, id) VALUES (4, 'db1f53bd73cb966cada4c3d1b0ddfff9', 'layer-00000000-0000-4000-8000-000000000005');
INSERT INTO nodes (id, record) VALUES ('db1f53bd73cb966cada4c3d1b0ddfff9', '{"clock_anchor":{"boot_id":"5fbd2c76","boot_ms":12,"unix_ms":1700000000012},"snapshots_boot":"5fbd2c76","local_key":"key-00000000-0000-4000-8000-000000000001"}');
INSERT INTO ports (sandbox, port, public, host) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 80, 1, NULL);
INSERT INTO ports (sandbox, port, public, host) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 8000, 0, 'localhost:8000');
INSERT INTO reached (sandbox, host, port) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', '192.0.2.7', 0);
INSERT INTO reached (sandbox, host, port) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', '2001:db8::1', 53);
INSERT INTO reached (sandbox, host, port) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'a.example', 443);
INSERT INTO runs (id, session, number, record) VALUES ('run-00000000-0000-4000-8000-000000000001', 'sess-00000000-0000-4000-8000-000000000001', 1, '{"id":"run-00000000-0000-4000-8000-000000000001","session":"sess-00000000-0000-4000-8000-000000000001","number":1,"status":"completed","at_unix_ms":77000,"task":"count \"it\"","result":"2","duration_ms":7,"tokens":11,"screenshots":["shot.png"],"provider":"local"}');
INSERT INTO runs (id, session, number, record) VALUES ('run-00000000-0000-4000-8000-000000000002', 'sess-00000000-0000-4000-8000-000000000001', 2, '{"id":"run-00000000-0000-4000-8000-000000000002","session":"sess-00000000-0000-4000-8000-000000000001","number":2,"status":"completed","at_unix_ms":77000,"task":"count \"it\"","result":"2","duration_ms":7,"tokens":11,"screenshots":["shot.png"],"provider":"local"}');
INSERT INTO sandboxes (id, owner, created, generation, status, over, ended, record, node, name) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'ann', 1000, 2, 'ready', 0, 1000, '{"id":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","owner":"ann","name":"web","node":"db1f53bd73cb966cada4c3d1b0ddfff9","generation":2,"status":"ready","paused":null,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{"NAME":"line\nline"},"labels":{"team":"a\"b"},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"disk_limit_required":true,"kind":"research","backend":"fake","metadata":{"note":"it''s 🐇"},"created_unix_ms":1000,"made_in_ms":41,"deadline":{"boot_id":"boot","boot_ms":1,"unix_ms":1},"on_expiry":"pause","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"death":null,"history":{"stack":["layer-00000000-0000-4000-8000-000000000002","layer-00000000-0000-4000-8000-000000000001"],"head":"snap-00000000-0000-4000-8000-000000000002","redo":["snap-00000000-0000-4000-8000-000000000003"],"turn":4,"automatic":"commands","forked_from":"sbxaaaaaaaaaaaaaaaaaaaaaaaaac","began":["layer-00000000-0000-4000-8000-000000000001"],"moved":false},"addresses":["10.88.0.7"],"traffic":{"public":true,"wake":{"lifetime_s":60}},"pause_keeps":"files","annotations":{"e2b":"{\"template\":\"base\"}"}}', 'db1f53bd73cb966cada4c3d1b0ddfff9', 'web');
INSERT INTO sandboxes (id, owner, created, generation, status, over, ended, record, node, name) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaac', 'ann', 2000, 2, 'paused', 0, 2000, '{"id":"sbxaaaaaaaaaaaaaaaaaaaaaaaaac","owner":"ann","node":"db1f53bd73cb966cada4c3d1b0ddfff9","generation":2,"status":"paused","paused":{"by":"idleness","since_unix_ms":40000,"deadline":{"boot_id":"5fbd2c76","boot_ms":86400000,"unix_ms":1700086400000}},"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"disk_limit_required":false,"kind":"terminal","backend":"fake","metadata":{},"created_unix_ms":2000,"made_in_ms":0,"deadline":{"boot_id":"boot","boot_ms":1,"unix_ms":1},"on_expiry":"keep","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"death":null,"history":{"stack":[],"head":null,"redo":[],"turn":0,"automatic":"commands","forked_from":null,"began":[],"moved":false},"traffic":{"public":false},"pause_keeps":"memory"}', 'db1f53bd73cb966cada4c3d1b0ddfff9', NULL);
INSERT INTO sandboxes (id, owner, created, generation, status, over, ended, record, node, name) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaad', 'ann', 3000, 2, 'creating', 0, 3000, '{"id":"sbxaaaaaaaaaaaaaaaaaaaaaaaaad","owner":"ann","node":"db1f53bd73cb966cada4c3d1b0ddfff9","generation":2,"status":"creating","paused":null,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"disk_limit_required":false,"kind":"terminal","backend":"fake","metadata":{},"created_unix_ms":3000,"made_in_ms":0,"deadline":{"boot_id":"boot","boot_ms":1,"unix_ms":1},"on_expiry":"keep","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"death":null,"history":{"stack":[],"head":null,"redo":[],"turn":0,"automatic":"commands","forked_from":null,"began":[],"moved":false},"traffic":{"public":false},"pause_keeps":"memory"}', 'db1f53bd73cb966cada4c3d1b0ddfff9', NULL);
INSERT INTO sandboxes (id, owner, created, generation, status, over, ended, record, node, name) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaae', 'ann', 4000, 2, 'ready', 0, 4000, '{"id":"sbxaaaaaaaaaaaaaaaaaaaaaaaaae","owner":"ann","node":"db1f53bd73cb966cada4c3d1b0ddfff9","generation":2,"status":"ready","paused":null,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"disk_limit_required":false,"kind":"terminal","backend":"fake","metadata":{},"created_unix_ms":4000,"made_in_ms":0,"deadline":{"boot_id":"boot","boot_ms":1,"unix_ms":1},"on_expiry":"keep","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"death":null,"history":{"stack":[],"head":null,"redo":[],"turn":0,"automatic":"commands","forked_from":null,"began":[],"moved":false},"traffic":{"public":false},"pause_keeps":"memory"}', 'db1f53bd73cb966cada4c3d1b0ddfff9', NULL);
INSERT INTO sandboxes (id, owner, created, generation, status, over, ended, record, node, name) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaaf', 'ann', 5000, 2, 'stopping', 0, 5000, '{"id":"sbxaaaaaaaaaaaaaaaaaaaaaaaaaf","owner":"ann","node":"db1f53bd73cb966cada4c3d1b0ddfff9","generation":2,"status":"stopping","paused":null,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"disk_limit_required":false,"kind":"terminal","backend":"fake","metadata":{},"created_unix_ms":5000,"made_in_ms":0,"deadline":{"boot_id":"boot","boot_ms":1,"unix_ms":1},"on_expiry":"keep","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"death":null,"history":{"stack":[],"head":null,"redo":[],"turn":0,"automatic":"commands","forked_from":null,"began":[],"moved":false},"traffic":{"public":false},"pause_keeps":"memory"}', 'db1f53bd73cb966cada4c3d1b0ddfff9', NULL);
INSERT INTO sandboxes (id, owner, created, generation, status, over, ended, record, node, name) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaag', 'ann', 6000, 2, 'stopped', 0, 90000, '{"id":"sbxaaaaaaaaaaaaaaaaaaaaaaaaag","owner":"ann","node":"db1f53bd73cb966cada4c3d1b0ddfff9","generation":2,"status":"stopped","paused":null,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"disk_limit_required":false,"kind":"terminal","backend":"fake","metadata":{},"created_unix_ms":6000,"made_in_ms":0,"deadline":{"boot_id":"boot","boot_ms":1,"unix_ms":1},"on_expiry":"keep","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"death":{"cause":{"kind":"idle"},"detail":"it said \"enough\"","at_unix_ms":90000,"last_output":"bye 🐇\n","processes":["1 init","7 make -j2"],"usage":{"memory_bytes":0,"memory_peak_bytes":1073741824,"memory_cache_bytes":0,"cpu_ns":7,"pids":0,"disk_bytes":0,"inodes":0,"oom_kills":0,"io_bytes":0,"connections":0,"disk_exceeded":false},"snapshot":"snap-00000000-0000-4000-8000-000000000001","files_kept":true},"history":{"stack":[],"head":null,"redo":[],"turn":0,"automatic":"commands","forked_from":null,"began":[],"moved":false},"traffic":{"public":false},"pause_keeps":"memory"}', 'db1f53bd73cb966cada4c3d1b0ddfff9', NULL);
INSERT INTO sandboxes (id, owner, created, generation, status, over, ended, record, node, name) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaah', 'ann', 7000, 2, 'stopped', 1, 90000, '{"id":"sbxaaaaaaaaaaaaaaaaaaaaaaaaah","owner":"ann","name":"web","node":"db1f53bd73cb966cada4c3d1b0ddfff9","generation":2,"status":"stopped","paused":null,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"disk_limit_required":false,"kind":"terminal","backend":"fake","metadata":{},"created_unix_ms":7000,"made_in_ms":0,"deadline":{"boot_id":"boot","boot_ms":1,"unix_ms":1},"on_expiry":"keep","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"death":{"cause":{"kind":"killed","by":"ann"},"detail":"it said \"enough\"","at_unix_ms":90000,"last_output":"bye 🐇\n","processes":["1 init","7 make -j2"],"usage":null,"snapshot":"snap-00000000-0000-4000-8000-000000000001","files_kept":false},"history":{"stack":[],"head":null,"redo":[],"turn":0,"automatic":"commands","forked_from":null,"began":[],"moved":false},"traffic":{"public":false},"pause_keeps":"memory"}', 'db1f53bd73cb966cada4c3d1b0ddfff9', 'web');
INSERT INTO sandboxes (id, owner, created, generation, status, over, ended, record, node, name) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaai', 'bob', 8000, 2, 'failed', 1, 90000, '{"id":"sbxaaaaaaaaaaaaaaaaaaaaaaaaai","owner":"bob","node":"db1f53bd73cb966cada4c3d1b0ddfff9","generation":2,"status":"failed","paused":null,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"disk_limit_required":false,"kind":"terminal","backend":"fake","metadata":{},"created_unix_ms":8000,"made_in_ms":0,"deadline":{"boot_id":"boot","boot_ms":1,"unix_ms":1},"on_expiry":"keep","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"death":{"cause":{"kind":"backend_error"},"detail":"it said \"enough\"","at_unix_ms":90000,"last_output":"bye 🐇\n","processes":["1 init","7 make -j2"],"usage":null,"snapshot":"snap-00000000-0000-4000-8000-000000000001","files_kept":false},"history":{"stack":[],"head":null,"redo":[],"turn":0,"automatic":"commands","forked_from":null,"began":[],"moved":false},"traffic":{"public":false},"pause_keeps":"memory"}', 'db1f53bd73cb966cada4c3d1b0ddfff9', NULL);
INSERT INTO sandboxes (id, owner, created, generation, status, over, ended, record, node, name) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaaj', 'bob', 9000, 2, 'ready', 0, 9000, '{"id":"sbxaaaaaaaaaaaaaaaaaaaaaaaaaj","owner":"bob","node":"db1f53bd73cb966cada4c3d1b0ddfff9","generation":2,"status":"ready","paused":null,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"disk_limit_required":false,"kind":"terminal","backend":"fake","metadata":{},"created_unix_ms":9000,"made_in_ms":0,"deadline":{"boot_id":"boot","boot_ms":1,"unix_ms":1},"on_expiry":"keep","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"death":null,"history":{"stack":[],"head":null,"redo":[],"turn":0,"automatic":"commands","forked_from":null,"began":[],"moved":false},"traffic":{"public":false},"pause_keeps":"memory"}', 'db1f53bd73cb966cada4c3d1b0ddfff9', NULL);
INSERT INTO secret_key (one, proof) VALUES (1, X'F4F0CAB31847BFB8924D03A5A92C26C9FE77B150988C5E79A5BB4BCFD41541FA06C5452C5BADF29EBDC32BAC11B41CC344158C16127B');
INSERT INTO secrets (owner, name, record, sealed) VALUES ('ann', 'password', '{"name":"password","hosts":["api.example"],"injection":{"how":"header","header":"authorization","template":"Bearer {}"},"created_unix_ms":3000,"changed_unix_ms":3000}', X'E7B49EF7DF298782C83D9E65CD160575CDA7654DAF38B340DCDFA04145178B0069C796453DFBBF40B2D92B28E60821590AEA8F732C943E6F0FAE819E6DC5BF6B82D4D8D79F1B75AFC229E1801882');
INSERT INTO secrets (owner, name, record, sealed) VALUES ('ann', 'token', '{"name":"token","hosts":["api.example"],"injection":{"how":"header","header":"authorization","template":"Bearer {}"},"created_unix_ms":3000,"changed_unix_ms":3000}', X'351777F2B2D71CAA8454A363D2B4884671AC2AE3ACD68FF15EB97BC287AFEC39C8321F5067890CE7E49919FA8861F8C8A997CC5E75CF267F8A910B260A11B979D9BE2098E74A04BA32AD3946F675');
INSERT INTO secrets (owner, name, record, sealed) VALUES ('bob', 'token', '{"name":"token","hosts":["api.example"],"injection":{"how":"header","header":"authorization","template":"Bearer {}"},"created_unix_ms":3000,"changed_unix_ms":3000}', X'1A33335F47FD2196F24C09428EDBAF3C3140AFEDDA833F7977753063D0F266D33C9EEFD2DF78929579A9D914E1C39BA0F45CC2954FBEE1FE5991D5B4919F5886EE5F35E782BC41353180BC3A5A13');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000001', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'client', 1000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000001","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","client":"client","kind":"terminal","state":"active","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":null,"totals":{"runs":2,"tokens":22,"duration_ms":14},"created_unix_ms":1000,"last_activity_unix_ms":77000,"deadline":null,"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000002', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaac', 'client', 2000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000002","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaac","client":"client","kind":"terminal","state":"active","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":null,"totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":2000,"last_activity_unix_ms":0,"deadline":null,"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000003', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaad', 'client', 3000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000003","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaad","client":"client","kind":"terminal","state":"active","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":null,"totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":3000,"last_activity_unix_ms":0,"deadline":null,"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000004', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaae', 'client', 4000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000004","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaae","client":"client","kind":"terminal","state":"active","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":null,"totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":4000,"last_activity_unix_ms":0,"deadline":null,"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000005', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaaf', 'client', 5000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000005","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaaf","client":"client","kind":"terminal","state":"active","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":null,"totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":5000,"last_activity_unix_ms":0,"deadline":null,"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000006', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaag', 'client', 6000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000006","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaag","client":"client","kind":"terminal","state":"active","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":null,"totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":6000,"last_activity_unix_ms":0,"deadline":null,"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000007', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaah', 'client', 7000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000007","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaah","client":"client","kind":"terminal","state":"active","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":null,"totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":7000,"last_activity_unix_ms":0,"deadline":null,"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000008', 'bob', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaai', 'client', 8000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000008","owner":"bob","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaai","client":"client","kind":"terminal","state":"active","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":null,"totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":8000,"last_activity_unix_ms":0,"deadline":null,"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000009', 'bob', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaaj', 'client', 9000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000009","owner":"bob","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaaj","client":"client","kind":"terminal","state":"active","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":null,"totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":9000,"last_activity_unix_ms":0,"deadline":null,"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000015', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'client', 21000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000015","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","client":"client","kind":"terminal","state":"active","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":"pro","totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":21000,"last_activity_unix_ms":0,"deadline":{"boot_id":"5fbd2c76","boot_ms":900000,"unix_ms":1700000900000},"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000016', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'client', 22000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000016","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","client":"client","kind":"terminal","state":"detached","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":"pro","totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":22000,"last_activity_unix_ms":0,"deadline":{"boot_id":"5fbd2c76","boot_ms":900000,"unix_ms":1700000900000},"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000017', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'client', 23000, 1, '{"id":"sess-00000000-0000-4000-8000-000000000017","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","client":"client","kind":"terminal","state":"suspended","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":"pro","totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":23000,"last_activity_unix_ms":0,"deadline":{"boot_id":"5fbd2c76","boot_ms":900000,"unix_ms":1700000900000},"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000018', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'client', 24000, 0, '{"id":"sess-00000000-0000-4000-8000-000000000018","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","client":"client","kind":"terminal","state":"expired","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":"pro","totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":24000,"last_activity_unix_ms":0,"deadline":{"boot_id":"5fbd2c76","boot_ms":900000,"unix_ms":1700000900000},"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-000000000019', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'client', 25000, 0, '{"id":"sess-00000000-0000-4000-8000-000000000019","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","client":"client","kind":"terminal","state":"released","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":"pro","totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":25000,"last_activity_unix_ms":0,"deadline":{"boot_id":"5fbd2c76","boot_ms":900000,"unix_ms":1700000900000},"detached_until":null,"thinking_until":null}');
INSERT INTO sessions (id, owner, sandbox, client, created, open, record) VALUES ('sess-00000000-0000-4000-8000-00000000001a', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'client', 26000, 0, '{"id":"sess-00000000-0000-4000-8000-00000000001a","owner":"ann","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","client":"client","kind":"terminal","state":"terminated","timeouts":{"active_s":300,"detached_s":3600,"suspended_s":86400},"labels":{},"metadata":{},"provision":{"state":"ready","url":null,"job":null},"limits":{"runs":10,"run_s":300,"tokens":50000,"duration_s":900},"tier":"pro","totals":{"runs":0,"tokens":0,"duration_ms":0},"created_unix_ms":26000,"last_activity_unix_ms":0,"deadline":{"boot_id":"5fbd2c76","boot_ms":900000,"unix_ms":1700000900000},"detached_until":null,"thinking_until":null}');
INSERT INTO snapshot_layers (layer, snapshot) VALUES (1, 1);
INSERT INTO snapshot_layers (layer, snapshot) VALUES (1, 2);
INSERT INTO snapshot_layers (layer, snapshot) VALUES (1, 3);
INSERT INTO snapshot_layers (layer, snapshot) VALUES (2, 2);
INSERT INTO snapshot_layers (layer, snapshot) VALUES (3, 4);
INSERT INTO snapshot_layers (layer, snapshot) VALUES (4, 5);
INSERT INTO snapshots (number, id, owner, sandbox, session, parent, name, template, created, durable, damaged, record, node) VALUES (1, 'snap-00000000-0000-4000-8000-000000000001', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'sess-00000000-0000-4000-8000-000000000001', NULL, 'before the "merge"', 'host', 1000, 1, 0, '{"id":"snap-00000000-0000-4000-8000-000000000001","owner":"ann","node":"db1f53bd73cb966cada4c3d1b0ddfff9","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","session":"sess-00000000-0000-4000-8000-000000000001","parent":null,"name":"before the \"merge\"","reason":"request","turn":null,"created_unix_ms":1000,"method":"sealed","stack":["layer-00000000-0000-4000-8000-000000000001"],"space":{"bytes":4096,"inodes":2},"durable":true,"damaged":false,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"kind":"terminal","disk_limit_required":false,"backend":"fake"}', 'db1f53bd73cb966cada4c3d1b0ddfff9');
INSERT INTO snapshots (number, id, owner, sandbox, session, parent, name, template, created, durable, damaged, record, node) VALUES (2, 'snap-00000000-0000-4000-8000-000000000002', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', NULL, 'snap-00000000-0000-4000-8000-000000000001', NULL, 'host', 2000, 1, 0, '{"id":"snap-00000000-0000-4000-8000-000000000002","owner":"ann","node":"db1f53bd73cb966cada4c3d1b0ddfff9","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","session":null,"parent":"snap-00000000-0000-4000-8000-000000000001","operations":2,"lost":[1],"name":null,"reason":"command","turn":3,"created_unix_ms":2000,"method":"sealed","stack":["layer-00000000-0000-4000-8000-000000000002","layer-00000000-0000-4000-8000-000000000001"],"space":null,"durable":true,"damaged":false,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"kind":"terminal","disk_limit_required":false,"backend":"fake"}', 'db1f53bd73cb966cada4c3d1b0ddfff9');
INSERT INTO snapshots (number, id, owner, sandbox, session, parent, name, template, created, durable, damaged, record, node) VALUES (3, 'snap-00000000-0000-4000-8000-000000000003', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaab', NULL, 'snap-00000000-0000-4000-8000-000000000001', NULL, 'host', 3000, 0, 0, '{"id":"snap-00000000-0000-4000-8000-000000000003","owner":"ann","node":"db1f53bd73cb966cada4c3d1b0ddfff9","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaab","session":null,"parent":"snap-00000000-0000-4000-8000-000000000001","before":"snap-00000000-0000-4000-8000-000000000002","name":null,"reason":"rollback","turn":null,"created_unix_ms":3000,"method":"unchanged","stack":["layer-00000000-0000-4000-8000-000000000001"],"space":null,"durable":false,"damaged":false,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"kind":"terminal","disk_limit_required":false,"backend":"fake"}', 'db1f53bd73cb966cada4c3d1b0ddfff9');
INSERT INTO snapshots (number, id, owner, sandbox, session, parent, name, template, created, durable, damaged, record, node) VALUES (4, 'snap-00000000-0000-4000-8000-000000000004', 'ann', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaag', NULL, NULL, NULL, 'host', 4000, 0, 1, '{"id":"snap-00000000-0000-4000-8000-000000000004","owner":"ann","node":"db1f53bd73cb966cada4c3d1b0ddfff9","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaag","session":null,"parent":null,"name":null,"reason":"request","turn":null,"created_unix_ms":4000,"method":"copied","stack":["layer-00000000-0000-4000-8000-000000000004"],"space":null,"durable":false,"damaged":true,"spec":{"template":"host","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"kind":"terminal","disk_limit_required":false,"backend":"fake"}', 'db1f53bd73cb966cada4c3d1b0ddfff9');
INSERT INTO snapshots (number, id, owner, sandbox, session, parent, name, template, created, durable, damaged, record, node) VALUES (5, 'snap-00000000-0000-4000-8000-000000000005', 'bob', 'sbxaaaaaaaaaaaaaaaaaaaaaaaaaj', NULL, NULL, NULL, 'python', 5000, 1, 0, '{"id":"snap-00000000-0000-4000-8000-000000000005","owner":"bob","node":"db1f53bd73cb966cada4c3d1b0ddfff9","sandbox":"sbxaaaaaaaaaaaaaaaaaaaaaaaaaj","session":null,"parent":null,"name":null,"reason":"request","turn":null,"created_unix_ms":5000,"method":"sealed","stack":["layer-00000000-0000-4000-8000-000000000005"],"space":null,"durable":true,"damaged":false,"spec":{"template":"python","limits":{"memory":4294967296,"cpus":2000,"pids":1024,"disk":10737418240,"inodes":1000000,"open_files":4096,"lifetime_s":14400},"env":{},"labels":{},"user":null,"workdir":null,"hostname":null,"network":{"mode":"none"},"mounts":[],"profile":"standard"},"kind":"terminal","disk_limit_required":false,"backend":"fake"}', 'db1f53bd73cb966cada4c3d1b0ddfff9');
INSERT INTO tool_calls (sandbox, call, owner, fingerprint, at, answer) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'call-1', 'ann', 'c3d4', 6000, '{"done":"it''s"}');
INSERT INTO tool_calls (sandbox, call, owner, fingerprint, at, answer) VALUES ('sbxaaaaaaaaaaaaaaaaaaaaaaaaab', 'call-2', 'ann', 'c3d4', 6000, NULL);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence (name, seq) VALUES ('events', 10);
COMMIT;
PRAGMA user_version = 7;

-- Owners' secrets. Values are sealed with a key that is not in the database, each bound to its owner, its name and its record.

CREATE TABLE secrets (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    record TEXT NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;

-- Something sealed with that key, so that another one is noticed before anything is sealed with it.
CREATE TABLE secret_key (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    proof BLOB NOT NULL
) STRICT;

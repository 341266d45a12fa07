-- Sandboxes may have a name, which is part of the record too. One that is over keeps its name for the record, and another may
-- have it.
ALTER TABLE sandboxes ADD COLUMN name TEXT;
CREATE UNIQUE INDEX sandboxes_by_name ON sandboxes (owner, name) WHERE over = 0 AND name IS NOT NULL;

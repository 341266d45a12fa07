//! The schema's history. A migration that was released is never changed: a new one follows it.

use rusqlite::{Connection, TransactionBehavior};

/// Migration `n` brings a database from version `n` to `n + 1`; an empty one has version 0.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001-records.sql"),
    include_str!("migrations/0002-snapshots.sql"),
    include_str!("migrations/0003-secrets.sql"),
    include_str!("migrations/0004-nodes.sql"),
    include_str!("migrations/0005-images.sql"),
    include_str!("migrations/0006-traffic.sql"),
    include_str!("migrations/0007-names.sql"),
];

/// The schema version of this build.
pub(super) const LATEST: i64 = MIGRATIONS.len() as i64;

pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// A step of one migration, after which a test kills the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MigrationStep {
    Begun,
    Applied,
    Numbered,
    Committed,
}

/// Brings the schema up to date. A migration and its number are one transaction. `passed` is told
/// each step and the version that it leads to.
pub(super) fn migrate(
    connection: &mut Connection,
    migrations: &[&str],
    passed: &dyn Fn(MigrationStep, usize),
) -> rusqlite::Result<()> {
    let done = usize::try_from(version(connection)?).unwrap_or(0);
    for (sql, version) in migrations.iter().zip(1..).skip(done) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        passed(MigrationStep::Begun, version);
        transaction.execute_batch(sql)?;
        passed(MigrationStep::Applied, version);
        transaction.execute_batch(&format!("PRAGMA user_version = {version}"))?;
        passed(MigrationStep::Numbered, version);
        transaction.commit()?;
        passed(MigrationStep::Committed, version);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(connection: &mut Connection, migrations: &[&str]) -> rusqlite::Result<()> {
        migrate(connection, migrations, &|_, _| {})
    }

    fn tables(connection: &Connection) -> Vec<String> {
        let mut names =
            connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
        names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn only_missing_migrations_are_applied() {
        let mut connection = Connection::open_in_memory().unwrap();
        apply(&mut connection, &["CREATE TABLE a (x)"]).unwrap();
        apply(&mut connection, &["CREATE TABLE a (x)", "CREATE TABLE b (x)"]).unwrap();
        assert_eq!(tables(&connection), ["a", "b"]);
        assert_eq!(version(&connection).unwrap(), 2);
    }

    #[test]
    fn a_migration_that_fails_half_way_leaves_the_version_before_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        let broken = "CREATE TABLE b (x); CREATE TABLE a (y)";
        apply(&mut connection, &["CREATE TABLE a (x)", broken]).unwrap_err();
        assert_eq!(tables(&connection), ["a"]);
        assert_eq!(version(&connection).unwrap(), 1);
        apply(&mut connection, &["CREATE TABLE a (x)", "CREATE TABLE c (x)"]).unwrap();
        assert_eq!(tables(&connection), ["a", "c"]);
    }

    #[test]
    fn the_real_migrations_apply_to_an_empty_database() {
        let mut connection = Connection::open_in_memory().unwrap();
        apply(&mut connection, MIGRATIONS).unwrap();
        assert_eq!(version(&connection).unwrap(), LATEST);
    }
}

//! The schema's history. A migration that was released is never changed: a new one follows it.

use rusqlite::{Connection, TransactionBehavior};

/// The first makes version 1 of an empty database, each other the next version of the one before.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001-records.sql"),
    include_str!("migrations/0002-snapshots.sql"),
    include_str!("migrations/0003-secrets.sql"),
    include_str!("migrations/0004-nodes.sql"),
    include_str!("migrations/0005-images.sql"),
    include_str!("migrations/0006-traffic.sql"),
];

/// The version that this build reads and writes.
pub(super) const LATEST: i64 = MIGRATIONS.len() as i64;

pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings the schema up to date. Each migration happens together with its number, or not at all.
pub(super) fn migrate(connection: &mut Connection, migrations: &[&str]) -> rusqlite::Result<()> {
    let done = usize::try_from(version(connection)?).unwrap_or(0);
    for (index, sql) in migrations.iter().enumerate().skip(done) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(sql)?;
        transaction.execute_batch(&format!("PRAGMA user_version = {}", index + 1))?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(connection: &Connection) -> Vec<String> {
        let mut names =
            connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
        names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn only_missing_migrations_are_applied() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &["CREATE TABLE a (x)"]).unwrap();
        migrate(&mut connection, &["CREATE TABLE a (x)", "CREATE TABLE b (x)"]).unwrap();
        assert_eq!(tables(&connection), ["a", "b"]);
        assert_eq!(version(&connection).unwrap(), 2);
    }

    #[test]
    fn a_migration_that_fails_half_way_leaves_the_version_before_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        let broken = "CREATE TABLE b (x); CREATE TABLE a (y)";
        migrate(&mut connection, &["CREATE TABLE a (x)", broken]).unwrap_err();
        assert_eq!(tables(&connection), ["a"]);
        assert_eq!(version(&connection).unwrap(), 1);
        migrate(&mut connection, &["CREATE TABLE a (x)", "CREATE TABLE c (x)"]).unwrap();
        assert_eq!(tables(&connection), ["a", "c"]);
    }

    #[test]
    fn the_real_migrations_apply_to_an_empty_database() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        assert_eq!(version(&connection).unwrap(), LATEST);
    }
}

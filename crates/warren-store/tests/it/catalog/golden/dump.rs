//! A database as SQL that makes it again.

use std::fmt::Write as _;

use rusqlite::{Connection, Row};

pub(super) fn version(connection: &Connection) -> i64 {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

/// The statements that make the tables and indexes, tables first.
pub(super) fn statements(connection: &Connection) -> Vec<String> {
    texts(
        connection,
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type DESC, name",
    )
}

pub(super) fn of(connection: &Connection) -> String {
    let mut dump = String::from("PRAGMA foreign_keys = OFF;\nBEGIN;\n");
    for statement in statements(connection) {
        writeln!(dump, "{statement};").unwrap();
    }
    let tables =
        "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name = 'sqlite_sequence', name";
    for table in texts(connection, tables) {
        if table == "sqlite_sequence" {
            // The rows before made entries of their own.
            writeln!(dump, "DELETE FROM {table};").unwrap();
        }
        let columns = texts(connection, &format!("SELECT name FROM pragma_table_info('{table}')"));
        let values: Vec<String> = columns.iter().map(|column| format!("quote({column})")).collect();
        let rows = format!("SELECT {} FROM {table} ORDER BY 1", values.join(" || ', ' || "));
        for row in texts(connection, &rows) {
            writeln!(dump, "INSERT INTO {table} ({}) VALUES ({row});", columns.join(", ")).unwrap();
        }
    }
    writeln!(dump, "COMMIT;\nPRAGMA user_version = {};", version(connection)).unwrap();
    dump
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let text = |row: &Row<'_>| row.get(0);
    connection.prepare(sql).unwrap().query_map([], text).unwrap().map(Result::unwrap).collect()
}

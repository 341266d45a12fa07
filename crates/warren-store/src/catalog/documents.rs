//! Queries whose only column is a record, stored as a JSON document.

use rusqlite::{Connection, OptionalExtension as _, Params, Row};
use serde::de::DeserializeOwned;

use super::failure::JobError;

/// The record that a query finds, if any.
pub(super) fn one<T: DeserializeOwned>(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
) -> Result<Option<T>, JobError> {
    let found = connection.prepare_cached(sql)?.query_row(parameters, text).optional()?;
    found.map(|record| Ok(serde_json::from_str(&record)?)).transpose()
}

/// All records that a query finds, in its order.
pub(super) fn all<T: DeserializeOwned>(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
) -> Result<Vec<T>, JobError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(parameters, text)?;
    rows.map(|record| Ok(serde_json::from_str(&record?)?)).collect()
}

/// A query's only column.
pub(super) fn text(row: &Row<'_>) -> rusqlite::Result<String> {
    row.get(0)
}

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, EventFilter, EventLog};
use warren_core::{EventRecord, Owner};

use super::failure::JobError;
use super::{SqliteCatalog, integer};

const DAMAGED: &str = "the event is not one that was written";

impl EventLog for SqliteCatalog {
    fn append_events(&self, events: &[EventRecord]) -> Result<Vec<u64>, CatalogError> {
        self.writer.write("append events", Durability::Process, |connection| append(connection, events))
    }

    fn events(
        &self,
        owner: &Owner,
        filter: &EventFilter,
        after: u64,
        limit: u32,
    ) -> Result<Vec<EventRecord>, CatalogError> {
        self.readers.read(&format!("list the events of `{owner}`"), |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT number, at, sandbox, session, event FROM events
                 WHERE owner = ?1 AND number > ?2
                     AND (?4 IS NULL OR sandbox = ?4) AND (?5 IS NULL OR session = ?5)
                 ORDER BY number LIMIT ?3",
            )?;
            let sandbox = filter.sandbox.as_ref().map(|id| id.as_str());
            let session = filter.session.as_ref().map(|id| id.as_str());
            let wanted = params![owner.as_str(), integer(after), limit, sandbox, session];
            let rows = statement.query_map(wanted, columns)?;
            rows.map(|row| parse(owner, row?)).collect()
        })
    }

    fn last_event(&self) -> Result<u64, CatalogError> {
        self.readers.read("find the last event", last)
    }

    fn forget_events(&self, before_unix_ms: u64) -> Result<u64, CatalogError> {
        self.writer.write("forget old events", Durability::Process, |connection| {
            let forgotten = connection
                .prepare_cached("DELETE FROM events WHERE at < ?1")?
                .execute([integer(before_unix_ms)])?;
            Ok(forgotten as u64)
        })
    }
}

/// SQLite numbers the rows of an AUTOINCREMENT table in the order of the inserts, and never gives a
/// number twice.
fn append(connection: &Connection, events: &[EventRecord]) -> Result<Vec<u64>, JobError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO events (at, owner, sandbox, session, event) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut numbers = Vec::with_capacity(events.len());
    for event in events {
        let number = statement.insert(params![
            integer(event.at_unix_ms),
            event.owner.as_str(),
            event.sandbox.as_ref().map(|sandbox| sandbox.as_str()),
            event.session.as_ref().map(|session| session.as_str()),
            serde_json::to_string(&event.event)?,
        ])?;
        numbers
            .push(u64::try_from(number).map_err(|_| JobError::refused(CatalogErrorKind::Damaged, DAMAGED))?);
    }
    Ok(numbers)
}

/// SQLite keeps the greatest number of an AUTOINCREMENT table here, even if its row was deleted.
fn last(connection: &Connection) -> Result<u64, JobError> {
    let found: Option<i64> = connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'events'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(found.map_or(0, |number| u64::try_from(number).unwrap_or(0)))
}

struct Columns {
    number: i64,
    at: i64,
    sandbox: Option<String>,
    session: Option<String>,
    event: String,
}

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok(Columns {
        number: row.get(0)?,
        at: row.get(1)?,
        sandbox: row.get(2)?,
        session: row.get(3)?,
        event: row.get(4)?,
    })
}

fn parse(owner: &Owner, columns: Columns) -> Result<EventRecord, JobError> {
    let damaged = || JobError::refused(CatalogErrorKind::Damaged, DAMAGED);
    Ok(EventRecord {
        number: u64::try_from(columns.number).map_err(|_| damaged())?,
        at_unix_ms: u64::try_from(columns.at).map_err(|_| damaged())?,
        owner: owner.clone(),
        sandbox: columns.sandbox.map(|id| id.parse().map_err(|_| damaged())).transpose()?,
        session: columns.session.map(|id| id.parse().map_err(|_| damaged())).transpose()?,
        event: serde_json::from_str(&columns.event)?,
    })
}

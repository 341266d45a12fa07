use rusqlite::{Connection, OptionalExtension as _, params};
use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, JournalCatalog};
use warren_core::{JournalEntry, Owner, SandboxId, ToolAnswer};

use super::failure::JobError;
use super::{SqliteCatalog, integer};

const NO_SANDBOX: &str = "there is no such sandbox";
const DAMAGED: &str = "the entry is not one that was written";

impl JournalCatalog for SqliteCatalog {
    fn append_entry(&self, entry: &JournalEntry, durability: Durability) -> Result<u64, CatalogError> {
        let action = format!("append to the journal of `{}`", entry.sandbox);
        self.writer.write(&action, durability, |connection| append(connection, entry))
    }

    fn update_entries(&self, entries: &[JournalEntry], durability: Durability) -> Result<(), CatalogError> {
        self.writer.write("update the journal", durability, |connection| {
            let mut statement = connection.prepare_cached(
                "UPDATE journal SET open = ?4, record = ?5 WHERE sandbox = ?1 AND number = ?2 AND owner = ?3",
            )?;
            for entry in entries {
                statement.execute(params![
                    entry.sandbox.as_str(),
                    integer(entry.number),
                    entry.owner.as_str(),
                    is_open(entry),
                    serde_json::to_string(entry)?,
                ])?;
            }
            Ok(())
        })
    }

    fn entries(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<JournalEntry>, CatalogError> {
        self.readers.read(&format!("read the journal of `{sandbox}`"), |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT number, record FROM journal WHERE sandbox = ?1 AND owner = ?2 AND number < ?3
                 ORDER BY number DESC LIMIT ?4",
            )?;
            let before = before.map_or(i64::MAX, integer);
            let rows =
                statement.query_map(params![sandbox.as_str(), owner.as_str(), before, limit], columns)?;
            rows.map(|row| parse(row?)).collect()
        })
    }

    fn entry(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
        number: u64,
    ) -> Result<Option<JournalEntry>, CatalogError> {
        self.readers.read(&format!("read entry {number} of the journal of `{sandbox}`"), |connection| {
            connection
                .prepare_cached(
                    "SELECT number, record FROM journal WHERE sandbox = ?1 AND number = ?2 AND owner = ?3",
                )?
                .query_row(params![sandbox.as_str(), integer(number), owner.as_str()], columns)
                .optional()?
                .map(parse)
                .transpose()
        })
    }

    fn open_entries(&self, sandbox: &SandboxId) -> Result<Vec<JournalEntry>, CatalogError> {
        self.readers.read(&format!("read the open entries of the journal of `{sandbox}`"), |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT number, record FROM journal WHERE sandbox = ?1 AND open = 1 ORDER BY number",
            )?;
            let rows = statement.query_map([sandbox.as_str()], columns)?;
            rows.map(|row| parse(row?)).collect()
        })
    }

    fn begin_call(&self, call: &ToolAnswer) -> Result<Option<ToolAnswer>, CatalogError> {
        self.writer.write("write down a tool call", Durability::Process, |connection| begin(connection, call))
    }

    fn finish_call(&self, sandbox: &SandboxId, call: &str, answer: Option<&str>) -> Result<(), CatalogError> {
        self.writer.write("write down a tool call's answer", Durability::Process, |connection| {
            match answer {
                Some(answer) => connection
                    .prepare_cached(
                        "UPDATE tool_calls SET answer = ?3 WHERE sandbox = ?1 AND call = ?2 AND answer IS NULL",
                    )?
                    .execute([sandbox.as_str(), call, answer])?,
                None => connection
                    .prepare_cached(
                        "DELETE FROM tool_calls WHERE sandbox = ?1 AND call = ?2 AND answer IS NULL",
                    )?
                    .execute([sandbox.as_str(), call])?,
            };
            Ok(())
        })
    }
}

/// Only the column has the number: the document is written before it is known.
fn append(connection: &Connection, entry: &JournalEntry) -> Result<u64, JobError> {
    let number: Option<i64> = connection
        .prepare_cached(
            "INSERT INTO journal (sandbox, number, owner, open, record)
             SELECT id, 1 + coalesce((SELECT max(number) FROM journal WHERE sandbox = ?1), 0), owner, ?3, ?4
             FROM sandboxes WHERE id = ?1 AND owner = ?2
             RETURNING number",
        )?
        .query_row(
            params![
                entry.sandbox.as_str(),
                entry.owner.as_str(),
                is_open(entry),
                serde_json::to_string(entry)?
            ],
            |row| row.get(0),
        )
        .optional()?;
    let number = number.ok_or_else(|| JobError::refused(CatalogErrorKind::NotFound, NO_SANDBOX))?;
    u64::try_from(number).map_err(|_| JobError::refused(CatalogErrorKind::Damaged, DAMAGED))
}

fn is_open(entry: &JournalEntry) -> bool {
    entry.ended_unix_ms.is_none() || entry.after.is_none()
}

fn columns(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, String)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn parse((number, record): (i64, String)) -> Result<JournalEntry, JobError> {
    let entry: JournalEntry = serde_json::from_str(&record)?;
    let number = u64::try_from(number).map_err(|_| JobError::refused(CatalogErrorKind::Damaged, DAMAGED))?;
    Ok(JournalEntry { number, ..entry })
}

fn begin(connection: &Connection, call: &ToolAnswer) -> Result<Option<ToolAnswer>, JobError> {
    let earlier = connection
        .prepare_cached(
            "SELECT fingerprint, answer, at FROM tool_calls WHERE sandbox = ?1 AND call = ?2 AND owner = ?3",
        )?
        .query_row([call.sandbox.as_str(), &call.call, call.owner.as_str()], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?, row.get::<_, i64>(2)?))
        })
        .optional()?;
    if let Some((fingerprint, answer, at)) = earlier {
        let at_unix_ms = u64::try_from(at).unwrap_or(0);
        return Ok(Some(ToolAnswer { fingerprint, answer, at_unix_ms, ..call.clone() }));
    }
    let inserted = connection
        .prepare_cached(
            "INSERT INTO tool_calls (sandbox, call, owner, fingerprint, at, answer)
             SELECT id, ?3, owner, ?4, ?5, ?6 FROM sandboxes WHERE id = ?1 AND owner = ?2",
        )?
        .execute(params![
            call.sandbox.as_str(),
            call.owner.as_str(),
            call.call,
            call.fingerprint,
            integer(call.at_unix_ms),
            call.answer,
        ])?;
    if inserted == 1 { Ok(None) } else { Err(JobError::refused(CatalogErrorKind::NotFound, NO_SANDBOX)) }
}

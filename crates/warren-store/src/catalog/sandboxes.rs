use std::collections::BTreeMap;

use rusqlite::{Connection, ToSql, ffi, named_params, params};
use warren_core::catalog::{
    CatalogError, CatalogErrorKind, Durability, Idempotency, InsertError, NewRecords, SandboxCatalog,
    SandboxFilter,
};
use warren_core::{NodeId, Owner, Page, PageRequest, SandboxId, SandboxName, SandboxRecord, Status};

use super::documents::{self, text};
use super::failure::JobError;
use super::{SqliteCatalog, idempotency, integer, page, sessions};

impl SandboxCatalog for SqliteCatalog {
    fn insert(&self, new: NewRecords) -> Result<(), InsertError> {
        let action = format!("insert sandbox `{}`", new.sandbox.id);
        let earlier = self.writer.write(&action, Durability::Process, |connection| {
            idempotency::once(connection, new.idempotency.as_ref(), || {
                insert(connection, &new.sandbox)?;
                sessions::insert(connection, &new.session)
            })
        })?;
        earlier.map_or(Ok(()), |earlier| Err(InsertError::Repeated(earlier)))
    }

    fn update_sandbox(&self, record: &SandboxRecord, durability: Durability) -> Result<(), CatalogError> {
        let action = format!("update sandbox `{}`", record.id);
        self.writer.write(&action, durability, |connection| update(connection, record))
    }

    fn sandbox(&self, owner: &Owner, id: &SandboxId) -> Result<Option<SandboxRecord>, CatalogError> {
        self.readers.read(&format!("read sandbox `{id}`"), |connection| {
            let sql = "SELECT record FROM sandboxes WHERE id = ?1 AND owner = ?2";
            documents::one(connection, sql, [id.as_str(), owner.as_str()])
        })
    }

    fn sandboxes(
        &self,
        owner: &Owner,
        filter: &SandboxFilter,
        page: &PageRequest,
    ) -> Result<Page<SandboxRecord>, CatalogError> {
        self.readers.read(&format!("list the sandboxes of `{owner}`"), |connection| {
            let found = select(connection, owner, filter, page)?;
            Ok(page::finish(found, page, |record| (record.created_unix_ms, record.id.to_string())))
        })
    }

    fn sandbox_named(&self, owner: &Owner, name: &SandboxName) -> Result<Option<SandboxId>, CatalogError> {
        self.readers.read(&format!("look for the sandbox `{name}`"), |connection| {
            let sql = "SELECT id FROM sandboxes WHERE owner = ?1 AND name = ?2 AND over = 0";
            Ok(ids(connection, sql, params![owner.as_str(), name.as_str()])?.pop())
        })
    }

    fn sandboxes_beginning(
        &self,
        owner: &Owner,
        beginning: &str,
        most: usize,
    ) -> Result<Vec<SandboxId>, CatalogError> {
        self.readers.read(&format!("look for sandboxes `{beginning}…`"), |connection| {
            let (owner, most) = (owner.as_str(), i64::try_from(most).unwrap_or(i64::MAX));
            let wanted = params![owner, beginning, most];
            let found = ids(connection, BEGINNING_UNFINISHED, wanted)?;
            if found.is_empty() { ids(connection, BEGINNING_OVER, wanted) } else { Ok(found) }
        })
    }

    fn last_sandbox(&self, owner: &Owner) -> Result<Option<SandboxId>, CatalogError> {
        self.readers.read(&format!("look for the last sandbox of `{owner}`"), |connection| {
            let sql = "SELECT id FROM sandboxes
                       WHERE owner = ?1 AND over = 0 AND json_extract(record, '$.build') IS NULL
                       ORDER BY created DESC, id DESC LIMIT 1";
            Ok(ids(connection, sql, params![owner.as_str()])?.pop())
        })
    }

    fn unfinished_sandboxes(&self, node: &NodeId) -> Result<Vec<SandboxRecord>, CatalogError> {
        self.readers.read("list the sandboxes that are not over", |connection| {
            let sql =
                "SELECT record FROM sandboxes WHERE over = 0 AND node = ?1 ORDER BY owner, created DESC";
            documents::all(connection, sql, [node.as_str()])
        })
    }

    fn forget_sandboxes(&self, node: &NodeId, ended_before_unix_ms: u64) -> Result<u64, CatalogError> {
        self.writer.write("forget old sandboxes", Durability::Process, |connection| {
            // The caller's time is in the past, so a key a day older than it is at least a day old.
            idempotency::forget(connection, ended_before_unix_ms)?;
            let forgotten = connection
                .prepare_cached("DELETE FROM sandboxes WHERE over = 1 AND ended < ?1 AND node = ?2")?
                .execute(params![integer(ended_before_unix_ms), node.as_str()])?;
            Ok(forgotten as u64)
        })
    }

    fn remembered(&self, owner: &Owner, key: &str) -> Result<Option<Idempotency>, CatalogError> {
        self.readers
            .read("look for an idempotency key", |connection| idempotency::find(connection, owner, key))
    }

    fn default_sandbox(&self, owner: &Owner) -> Result<Option<SandboxId>, CatalogError> {
        self.readers.read(&format!("read the default sandbox of `{owner}`"), |connection| {
            let sql = "SELECT sandbox FROM default_sandboxes WHERE owner = ?1";
            Ok(ids(connection, sql, params![owner.as_str()])?.pop())
        })
    }

    fn set_default_sandbox(&self, owner: &Owner, id: Option<&SandboxId>) -> Result<(), CatalogError> {
        let action = format!("set the default sandbox of `{owner}`");
        self.writer.write(&action, Durability::Disk, |connection| {
            match id {
                Some(id) => {
                    check_owner(connection, owner, id)?;
                    connection
                        .prepare_cached(
                            "INSERT OR REPLACE INTO default_sandboxes (owner, sandbox) VALUES (?1, ?2)",
                        )?
                        .execute([owner.as_str(), id.as_str()])?
                }
                None => connection
                    .prepare_cached("DELETE FROM default_sandboxes WHERE owner = ?1")?
                    .execute([owner.as_str()])?,
            };
            Ok(())
        })
    }
}

/// Columns of a record that queries look for.
struct Columns {
    status: &'static str,
    over: bool,
    ended: i64,
}

impl Columns {
    fn of(record: &SandboxRecord) -> Self {
        let ended = record.death.as_ref().map_or(record.created_unix_ms, |death| death.at_unix_ms);
        Self {
            status: word(record.status),
            over: !record.is_live() && !record.files_kept(),
            ended: integer(ended),
        }
    }
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Creating => "creating",
        Status::Ready => "ready",
        Status::Paused => "paused",
        Status::Stopping => "stopping",
        Status::Stopped => "stopped",
        Status::Failed => "failed",
    }
}

fn insert(connection: &Connection, record: &SandboxRecord) -> Result<(), JobError> {
    let columns = Columns::of(record);
    connection
        .prepare_cached(
            "INSERT INTO sandboxes (id, owner, node, name, created, generation, status, over, ended, record)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            record.id.as_str(),
            record.owner.as_str(),
            record.node.as_str(),
            record.name.as_ref().map(SandboxName::as_str),
            integer(record.created_unix_ms),
            integer(record.generation),
            columns.status,
            columns.over,
            columns.ended,
            serde_json::to_string(record)?,
        ])
        .map_err(taken)?;
    Ok(())
}

/// The only unique thing of a sandbox beside its id is its name.
fn taken(error: rusqlite::Error) -> JobError {
    match error.sqlite_error().map(|failure| failure.extended_code) {
        Some(ffi::SQLITE_CONSTRAINT_UNIQUE) => {
            JobError::refused(CatalogErrorKind::NameTaken, "another sandbox has the name")
        }
        _ => error.into(),
    }
}

pub(super) fn update(connection: &Connection, record: &SandboxRecord) -> Result<(), JobError> {
    let columns = Columns::of(record);
    let changed = connection
        .prepare_cached(
            "UPDATE sandboxes SET node = :node, name = :name, generation = :generation, status = :status, over = :over,
                 ended = :ended, record = :record
             WHERE id = :id AND owner = :owner AND created = :created AND generation = :generation - 1",
        )?
        .execute(named_params! {
            ":id": record.id.as_str(),
            ":owner": record.owner.as_str(),
            ":node": record.node.as_str(),
            ":name": record.name.as_ref().map(SandboxName::as_str),
            ":created": integer(record.created_unix_ms),
            ":generation": integer(record.generation),
            ":status": columns.status,
            ":over": columns.over,
            ":ended": columns.ended,
            ":record": serde_json::to_string(record)?,
        })
        .map_err(taken)?;
    if changed == 1 {
        return Ok(());
    }
    check_owner(connection, &record.owner, &record.id)?;
    Err(JobError::refused(CatalogErrorKind::Stale, "it was changed since it was read"))
}

/// Fails unless the sandbox exists and belongs to the owner.
pub(super) fn check_owner(connection: &Connection, owner: &Owner, id: &SandboxId) -> Result<(), JobError> {
    let exists = connection
        .prepare_cached("SELECT 1 FROM sandboxes WHERE id = ?1 AND owner = ?2")?
        .exists([id.as_str(), owner.as_str()])?;
    if exists {
        Ok(())
    } else {
        Err(JobError::refused(CatalogErrorKind::NotFound, "there is no such sandbox"))
    }
}

fn select(
    connection: &Connection,
    owner: &Owner,
    filter: &SandboxFilter,
    page: &PageRequest,
) -> Result<Vec<SandboxRecord>, JobError> {
    let (created, id) = page::start(page);
    let statuses: Vec<&str> = filter.statuses.iter().map(|status| word(*status)).collect();
    documents::all(
        connection,
        if filter.ended { SELECT_ALL } else { SELECT_UNFINISHED },
        named_params! {
            ":owner": owner.as_str(),
            ":created": created,
            ":id": id,
            ":statuses": serde_json::to_string(&statuses)?,
            ":name": filter.name.as_ref().map(SandboxName::as_str),
            ":labels": wanted(&filter.labels)?,
            ":metadata": wanted(&filter.metadata)?,
            ":limit": page::fetched(page),
        },
    )
}

/// The ids that a query finds.
fn ids(connection: &Connection, sql: &str, wanted: &[&dyn ToSql]) -> Result<Vec<SandboxId>, JobError> {
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map(wanted, text)?;
    let damaged = |_| JobError::refused(CatalogErrorKind::Damaged, "it is no sandbox's id");
    found.map(|id| id?.parse().map_err(damaged)).collect()
}

macro_rules! beginning {
    ($index:literal, $over:literal) => {
        concat!(
            "SELECT id FROM sandboxes INDEXED BY ",
            $index,
            " WHERE owner = ?1 AND over = ",
            $over,
            " AND substr(id, 1, length(?2)) = ?2 ORDER BY created DESC, id DESC LIMIT ?3"
        )
    };
}

/// Both read an index of the owner's sandboxes from its newest to its oldest, and never those of
/// others, as the index of all ids would.
const BEGINNING_UNFINISHED: &str = beginning!("sandboxes_unfinished", 0);
const BEGINNING_OVER: &str = beginning!("sandboxes_by_owner", 1);

macro_rules! select_sandboxes {
    ($which:literal) => {
        concat!(
            "SELECT record FROM sandboxes
             WHERE owner = :owner AND (created, id) < (:created, :id) AND ",
            $which,
            "
             AND (:statuses = '[]' OR status IN (SELECT value FROM json_each(:statuses)))
             AND (:name IS NULL OR name = :name)
             AND (:labels = '' OR NOT EXISTS (
                 SELECT key, value FROM json_each(:labels)
                 EXCEPT SELECT key, value FROM json_each(record, '$.spec.labels')))
             AND (:metadata = '' OR NOT EXISTS (
                 SELECT key, value FROM json_each(:metadata)
                 EXCEPT SELECT key, value FROM json_each(record, '$.metadata')))
             ORDER BY created DESC, id DESC LIMIT :limit"
        )
    };
}

/// Two queries, so that each is planned with its own index.
const SELECT_ALL: &str = select_sandboxes!("true");
const SELECT_UNFINISHED: &str = select_sandboxes!("over = 0");

/// The entries as JSON; empty if none is asked for.
fn wanted(entries: &BTreeMap<String, String>) -> Result<String, JobError> {
    if entries.is_empty() { Ok(String::new()) } else { Ok(serde_json::to_string(entries)?) }
}

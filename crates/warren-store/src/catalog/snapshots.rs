use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::str::FromStr;

use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};
use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, SnapshotCatalog, SnapshotFilter};
use warren_core::{
    LayerId, NodeId, Owner, Page, PageRequest, SandboxId, SandboxRecord, SnapshotId, SnapshotRecord,
    TemplateName,
};

use super::documents::{self, text};
use super::failure::JobError;
use super::{SqliteCatalog, integer, page, sandboxes};

impl SnapshotCatalog for SqliteCatalog {
    fn insert_snapshots(
        &self,
        records: &[SnapshotRecord],
        durability: Durability,
    ) -> Result<(), CatalogError> {
        self.writer.write("insert snapshots", durability, |connection| {
            records.iter().try_for_each(|record| insert(connection, record))
        })
    }

    fn record_snapshots(
        &self,
        sandbox: &SandboxRecord,
        records: &[SnapshotRecord],
        durability: Durability,
    ) -> Result<(), CatalogError> {
        let action = format!("record snapshots of sandbox `{}`", sandbox.id);
        self.writer.write(&action, durability, |connection| {
            sandboxes::update(connection, sandbox)?;
            records.iter().try_for_each(|record| insert(connection, record))
        })
    }

    fn update_snapshot(&self, record: &SnapshotRecord, durability: Durability) -> Result<(), CatalogError> {
        let action = format!("update snapshot `{}`", record.id);
        self.writer.write(&action, durability, |connection| update(connection, record))
    }

    fn snapshot(&self, owner: &Owner, id: &SnapshotId) -> Result<Option<SnapshotRecord>, CatalogError> {
        self.readers.read(&format!("read snapshot `{id}`"), |connection| {
            let sql = "SELECT record FROM snapshots WHERE id = ?1 AND owner = ?2";
            documents::one(connection, sql, [id.as_str(), owner.as_str()])
        })
    }

    fn snapshots(
        &self,
        owner: &Owner,
        filter: &SnapshotFilter,
        page: &PageRequest,
    ) -> Result<Page<SnapshotRecord>, CatalogError> {
        self.readers.read(&format!("list the snapshots of `{owner}`"), |connection| {
            let found = select(connection, owner, filter, page)?;
            Ok(page::finish(found, page, |record| (record.created_unix_ms, record.id.to_string())))
        })
    }

    fn count_snapshots(
        &self,
        owner: &Owner,
        sandboxes: &[SandboxId],
    ) -> Result<HashMap<SandboxId, u64>, CatalogError> {
        self.readers.read(&format!("count the snapshots of `{owner}`"), |connection| {
            let mut statement = connection
                .prepare_cached("SELECT COUNT(*) FROM snapshots WHERE sandbox = ?1 AND owner = ?2")?;
            let mut counts = HashMap::new();
            for sandbox in sandboxes {
                let count: i64 = statement.query_row([sandbox.as_str(), owner.as_str()], |row| row.get(0))?;
                let count = u64::try_from(count).unwrap_or(0);
                counts.extend((count > 0).then(|| (sandbox.clone(), count)));
            }
            Ok(counts)
        })
    }

    fn delete_snapshots(&self, owner: &Owner, ids: &[SnapshotId]) -> Result<u64, CatalogError> {
        self.writer.write("delete snapshots", Durability::Process, |connection| {
            let mut deleted = 0;
            for id in ids {
                deleted += u64::from(delete(connection, owner, id)?);
            }
            Ok(deleted)
        })
    }

    fn layers_of_snapshots(&self, node: &NodeId) -> Result<HashSet<LayerId>, CatalogError> {
        self.readers.read("list the layers of snapshots", |connection| {
            distinct(connection, "SELECT id FROM layers WHERE node = ?1", node)
        })
    }

    fn templates_of_snapshots(&self, node: &NodeId) -> Result<HashSet<TemplateName>, CatalogError> {
        self.readers.read("list the templates of snapshots", |connection| {
            distinct(connection, "SELECT DISTINCT template FROM snapshots WHERE node = ?1", node)
        })
    }

    fn undurable_snapshots(&self, node: &NodeId) -> Result<Vec<SnapshotRecord>, CatalogError> {
        self.readers.read("list the snapshots that are not durable", |connection| {
            let sql = "SELECT record FROM snapshots WHERE durable = 0 AND damaged = 0 AND node = ?1
                       ORDER BY created";
            documents::all(connection, sql, [node.as_str()])
        })
    }

    fn snapshots_on(&self, node: &NodeId, layer: &LayerId) -> Result<Vec<SnapshotRecord>, CatalogError> {
        self.readers.read(&format!("list the snapshots on `{layer}`"), |connection| {
            let sql = "SELECT record FROM layers
                       JOIN snapshot_layers ON snapshot_layers.layer = layers.number
                       JOIN snapshots ON snapshots.number = snapshot_layers.snapshot
                       WHERE layers.node = ?1 AND layers.id = ?2 ORDER BY created, snapshots.id";
            documents::all(connection, sql, [node.as_str(), layer.as_str()])
        })
    }
}

fn insert(connection: &Connection, record: &SnapshotRecord) -> Result<(), JobError> {
    connection
        .prepare_cached(
            "INSERT INTO snapshots
                 (id, owner, node, sandbox, session, parent, name, template, created, durable, damaged, record)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            record.id.as_str(),
            record.owner.as_str(),
            record.node.as_str(),
            record.sandbox.as_str(),
            record.session.as_ref().map(|session| session.as_str()),
            record.parent.as_ref().map(SnapshotId::as_str),
            record.name,
            record.spec.template.as_str(),
            integer(record.created_unix_ms),
            record.durable,
            record.damaged,
            serde_json::to_string(record)?,
        ])?;
    count_layers(connection, connection.last_insert_rowid(), record)
}

/// Notes that the snapshot uses its layers, which its node holds.
fn count_layers(connection: &Connection, snapshot: i64, record: &SnapshotRecord) -> Result<(), JobError> {
    let node = record.node.as_str();
    let mut number = connection.prepare_cached("SELECT number FROM layers WHERE node = ?1 AND id = ?2")?;
    let mut number_new = connection.prepare_cached("INSERT INTO layers (node, id) VALUES (?1, ?2)")?;
    let mut count = connection
        .prepare_cached("INSERT OR IGNORE INTO snapshot_layers (layer, snapshot) VALUES (?1, ?2)")?;
    // The lowest first: it is the oldest.
    for layer in record.layers().rev() {
        let known: Option<i64> = number.query_row([node, layer.as_str()], |row| row.get(0)).optional()?;
        let layer = match known {
            Some(number) => number,
            None => number_new.insert([node, layer.as_str()])?,
        };
        count.execute([layer, snapshot])?;
    }
    Ok(())
}

fn discount_layers(connection: &Connection, snapshot: i64, record: &SnapshotRecord) -> Result<(), JobError> {
    let node = record.node.as_str();
    let mut discount = connection.prepare_cached(
        "DELETE FROM snapshot_layers
         WHERE layer = (SELECT number FROM layers WHERE node = ?1 AND id = ?2) AND snapshot = ?3",
    )?;
    let mut forget = connection.prepare_cached(
        "DELETE FROM layers
         WHERE node = ?1 AND id = ?2 AND NOT EXISTS (SELECT 1 FROM snapshot_layers WHERE layer = layers.number)",
    )?;
    for layer in record.layers() {
        discount.execute(params![node, layer.as_str(), snapshot])?;
        forget.execute([node, layer.as_str()])?;
    }
    Ok(())
}

fn update(connection: &Connection, record: &SnapshotRecord) -> Result<(), JobError> {
    let stored: Option<(i64, String)> = connection
        .prepare_cached("SELECT number, record FROM snapshots WHERE id = ?1 AND owner = ?2")?
        .query_row([record.id.as_str(), record.owner.as_str()], numbered)
        .optional()?;
    let (number, stored) =
        stored.ok_or_else(|| JobError::refused(CatalogErrorKind::NotFound, "there is no such snapshot"))?;
    let stored: SnapshotRecord = serde_json::from_str(&stored)?;
    if (&stored.sandbox, stored.created_unix_ms) != (&record.sandbox, record.created_unix_ms) {
        return Err(JobError::refused(
            CatalogErrorKind::Stale,
            "its id, owner, sandbox and creation time never change",
        ));
    }
    let parent = (stored.parent.clone(), stored.before.clone());
    let record = SnapshotRecord { parent: parent.0, before: parent.1, ..record.clone() };
    replace(connection, &record)?;
    if (&stored.node, &stored.stack, &stored.memory) != (&record.node, &record.stack, &record.memory) {
        discount_layers(connection, number, &stored)?;
        count_layers(connection, number, &record)?;
    }
    Ok(())
}

fn replace(connection: &Connection, record: &SnapshotRecord) -> Result<(), JobError> {
    connection
        .prepare_cached(
            "UPDATE snapshots SET session = ?2, name = ?3, template = ?4, durable = ?5, damaged = ?6, record = ?7,
                 node = ?8
             WHERE id = ?1",
        )?
        .execute(params![
            record.id.as_str(),
            record.session.as_ref().map(|session| session.as_str()),
            record.name,
            record.spec.template.as_str(),
            record.durable,
            record.damaged,
            serde_json::to_string(record)?,
            record.node.as_str(),
        ])?;
    Ok(())
}

/// Deletes a snapshot. Its children get its parent, and an undo that led to it leads to the one
/// before it. Returns whether it existed.
fn delete(connection: &Connection, owner: &Owner, id: &SnapshotId) -> Result<bool, JobError> {
    let removed: Option<(i64, String)> = connection
        .prepare_cached("DELETE FROM snapshots WHERE id = ?1 AND owner = ?2 RETURNING number, record")?
        .query_row([id.as_str(), owner.as_str()], numbered)
        .optional()?;
    let Some((number, removed)) = removed else { return Ok(false) };
    let removed: SnapshotRecord = serde_json::from_str(&removed)?;
    discount_layers(connection, number, &removed)?;
    connection
        .prepare_cached(
            "UPDATE snapshots SET parent = ?2, record = json_set(record, '$.parent', ?2) WHERE parent = ?1",
        )?
        .execute(params![id.as_str(), removed.parent.as_ref().map(SnapshotId::as_str)])?;
    let before = removed.before.or(removed.parent);
    connection
        .prepare_cached(
            "UPDATE snapshots SET record = json_set(record, '$.before', ?3)
             WHERE sandbox = ?2 AND json_extract(record, '$.before') = ?1",
        )?
        .execute(params![id.as_str(), removed.sandbox.as_str(), before.as_ref().map(SnapshotId::as_str)])?;
    Ok(true)
}

fn numbered(row: &Row<'_>) -> rusqlite::Result<(i64, String)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn distinct<T: FromStr + Eq + Hash>(
    connection: &Connection,
    sql: &str,
    node: &NodeId,
) -> Result<HashSet<T>, JobError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([node.as_str()], text)?;
    let damaged = |_| JobError::refused(CatalogErrorKind::Damaged, "the name is not one that was written");
    rows.map(|name| name?.parse().map_err(damaged)).collect()
}

fn select(
    connection: &Connection,
    owner: &Owner,
    filter: &SnapshotFilter,
    page: &PageRequest,
) -> Result<Vec<SnapshotRecord>, JobError> {
    let (created, id) = page::start(page);
    let sql = match filter {
        SnapshotFilter { sandbox: Some(_), name: Some(_), .. } => SELECT_BY_NAME,
        SnapshotFilter { session: Some(_), .. } => SELECT_BY_SESSION,
        SnapshotFilter { sandbox: Some(_), .. } => SELECT_BY_SANDBOX,
        SnapshotFilter { named: false, name: None, .. } => SELECT_ALL,
        SnapshotFilter { .. } => SELECT_NAMED,
    };
    documents::all(
        connection,
        sql,
        named_params! {
            ":owner": owner.as_str(),
            ":created": created,
            ":id": id,
            ":sandbox": filter.sandbox.as_ref().map(SandboxId::as_str),
            ":session": filter.session.as_ref().map(|session| session.as_str()),
            ":name": filter.name,
            ":named": filter.named,
            ":limit": page::fetched(page),
        },
    )
}

macro_rules! select_snapshots {
    ($index:literal, $which:literal) => {
        concat!(
            "SELECT record FROM snapshots INDEXED BY ",
            $index,
            " WHERE owner = :owner AND (created, id) < (:created, :id) AND ",
            $which,
            "
             AND (:sandbox IS NULL OR sandbox = :sandbox)
             AND (:session IS NULL OR session = :session)
             AND (:name IS NULL OR name = :name)
             AND (NOT :named OR name IS NOT NULL)
             ORDER BY created DESC, id DESC LIMIT :limit"
        )
    };
}

/// Five queries, each with the index that reads least.
const SELECT_ALL: &str = select_snapshots!("snapshots_by_owner", "true");
const SELECT_NAMED: &str = select_snapshots!("snapshots_named", "name IS NOT NULL");
const SELECT_BY_SANDBOX: &str = select_snapshots!("snapshots_by_sandbox", "sandbox = :sandbox");
const SELECT_BY_SESSION: &str = select_snapshots!("snapshots_by_session", "session = :session");
const SELECT_BY_NAME: &str = select_snapshots!("snapshots_by_name", "sandbox = :sandbox AND name = :name");

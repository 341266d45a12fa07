use rusqlite::{Connection, OptionalExtension as _, params};
use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, KeyCatalog};
use warren_core::{KeyId, KeyRecord, Owner};

use super::failure::JobError;
use super::sandboxes::text;
use super::{SqliteCatalog, integer};

impl KeyCatalog for SqliteCatalog {
    fn insert_key(&self, record: &KeyRecord) -> Result<(), CatalogError> {
        self.writer.write(&format!("insert key `{}`", record.id), Durability::Disk, |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO keys (id, owner, hash, created, record) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![
                    record.id.as_str(),
                    record.owner.as_str(),
                    record.hash,
                    integer(record.created_unix_ms),
                    serde_json::to_string(record)?,
                ])?;
            Ok(())
        })
    }

    fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRecord>, CatalogError> {
        self.readers.read("look for a key", |connection| {
            let mut statement = connection.prepare_cached("SELECT record FROM keys WHERE hash = ?1")?;
            parse(statement.query_row([hash], text).optional()?)
        })
    }

    fn keys(&self, owner: Option<&Owner>) -> Result<Vec<KeyRecord>, CatalogError> {
        self.readers.read("list keys", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT record FROM keys WHERE ?1 IS NULL OR owner = ?1 ORDER BY created, id",
            )?;
            let rows = statement.query_map([owner.map(Owner::as_str)], text)?;
            rows.map(|record| Ok(serde_json::from_str(&record?)?)).collect()
        })
    }

    fn revoke_key(&self, id: &KeyId, at_unix_ms: u64) -> Result<KeyRecord, CatalogError> {
        self.writer.write(&format!("revoke key `{id}`"), Durability::Disk, |connection| {
            revoke(connection, id, at_unix_ms)
        })
    }
}

fn revoke(connection: &Connection, id: &KeyId, at_unix_ms: u64) -> Result<KeyRecord, JobError> {
    let found = connection
        .prepare_cached("SELECT record FROM keys WHERE id = ?1")?
        .query_row([id.as_str()], text)
        .optional()?;
    let mut record: KeyRecord =
        parse(found)?.ok_or_else(|| JobError::refused(CatalogErrorKind::NotFound, "there is no such key"))?;
    if record.revoked_unix_ms.is_none() {
        record.revoked_unix_ms = Some(at_unix_ms);
        connection
            .prepare_cached("UPDATE keys SET record = ?2 WHERE id = ?1")?
            .execute([id.as_str(), &serde_json::to_string(&record)?])?;
    }
    Ok(record)
}

fn parse(record: Option<String>) -> Result<Option<KeyRecord>, JobError> {
    record.map(|record| Ok(serde_json::from_str(&record)?)).transpose()
}

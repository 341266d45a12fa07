use rusqlite::{Connection, params};
use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, KeyCatalog};
use warren_core::{KeyId, KeyRecord, Owner};

use super::failure::JobError;
use super::{SqliteCatalog, documents, integer};

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
            documents::one(connection, "SELECT record FROM keys WHERE hash = ?1", [hash])
        })
    }

    fn keys(&self, owner: Option<&Owner>) -> Result<Vec<KeyRecord>, CatalogError> {
        self.readers.read("list keys", |connection| {
            let sql = "SELECT record FROM keys WHERE ?1 IS NULL OR owner = ?1 ORDER BY created, id";
            documents::all(connection, sql, [owner.map(Owner::as_str)])
        })
    }

    fn revoke_key(&self, id: &KeyId, at_unix_ms: u64) -> Result<KeyRecord, CatalogError> {
        self.writer.write(&format!("revoke key `{id}`"), Durability::Disk, |connection| {
            revoke(connection, id, at_unix_ms)
        })
    }
}

fn revoke(connection: &Connection, id: &KeyId, at_unix_ms: u64) -> Result<KeyRecord, JobError> {
    let found = documents::one(connection, "SELECT record FROM keys WHERE id = ?1", [id.as_str()])?;
    let mut record: KeyRecord =
        found.ok_or_else(|| JobError::refused(CatalogErrorKind::NotFound, "there is no such key"))?;
    if record.revoked_unix_ms.is_none() {
        record.revoked_unix_ms = Some(at_unix_ms);
        connection
            .prepare_cached("UPDATE keys SET record = ?2 WHERE id = ?1")?
            .execute([id.as_str(), &serde_json::to_string(&record)?])?;
    }
    Ok(record)
}

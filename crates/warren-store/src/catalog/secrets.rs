//! Owners' secrets. The database lacks the key that their values are sealed with, so a copy of it
//! alone reveals none. A value is also bound to its owner, its name and its record, so that someone
//! who can write to the database cannot have it sent to another host.

mod key;

use rusqlite::{Connection, OptionalExtension as _, params};
use warren_core::Owner;
use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, SecretCatalog};
use warren_core::network::{Secret, SecretName, SecretRecord};

use super::SqliteCatalog;
use super::documents::{self, text};
use super::failure::JobError;
use key::Key;
pub(super) use key::{KeyError, KeyFile};

/// The text that a key's proof seals.
const PROOF: &[u8] = b"warren secrets";

impl SecretCatalog for SqliteCatalog {
    fn put_secret(&self, owner: &Owner, secret: &Secret) -> Result<(), CatalogError> {
        let action = format!("keep secret `{}`", secret.record.name);
        self.writer.write(&action, Durability::Disk, |connection| self.put(connection, owner, secret))
    }

    fn owners_of_secrets(&self) -> Result<Vec<Owner>, CatalogError> {
        self.readers.read("list who has secrets", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT DISTINCT owner FROM secrets ORDER BY owner")?;
            let rows = statement.query_map([], text)?;
            rows.map(|owner| Ok(owner?.parse::<Owner>().map_err(|_| KeyError::Damaged)?)).collect()
        })
    }

    fn secrets(&self, owner: &Owner) -> Result<Vec<SecretRecord>, CatalogError> {
        self.readers.read("list secrets", |connection| {
            let sql = "SELECT record FROM secrets WHERE owner = ?1 ORDER BY name";
            documents::all(connection, sql, [owner.as_str()])
        })
    }

    fn secret(&self, owner: &Owner, name: &SecretName) -> Result<Option<Secret>, CatalogError> {
        self.readers.read(&format!("read secret `{name}`"), |connection| {
            let Some((record, sealed)) = find(connection, owner, name)? else { return Ok(None) };
            let bound = bound_to(&self.instance, owner, name, &record);
            let value = self.key_file.read()?.open(&sealed, &bound)?;
            let value = String::from_utf8(value).map_err(|_| KeyError::Damaged)?;
            Ok(Some(Secret { record: serde_json::from_str(&record)?, value }))
        })
    }

    fn remove_secret(&self, owner: &Owner, name: &SecretName) -> Result<bool, CatalogError> {
        self.writer.write(&format!("remove secret `{name}`"), Durability::Disk, |connection| {
            let removed = connection
                .prepare_cached("DELETE FROM secrets WHERE owner = ?1 AND name = ?2")?
                .execute([owner.as_str(), name.as_str()])?;
            Ok(removed > 0)
        })
    }
}

impl SqliteCatalog {
    fn put(&self, connection: &Connection, owner: &Owner, secret: &Secret) -> Result<(), JobError> {
        let key = self.proven_key(connection)?;
        let name = &secret.record.name;
        let mut record = secret.record.clone();
        if let Some((earlier, _)) = find(connection, owner, name)? {
            record.created_unix_ms = serde_json::from_str::<SecretRecord>(&earlier)?.created_unix_ms;
        }
        let record = serde_json::to_string(&record)?;
        let sealed = key.seal(secret.value.as_bytes(), &bound_to(&self.instance, owner, name, &record))?;
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO secrets (owner, name, record, sealed) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![owner.as_str(), name.as_str(), record, sealed])?;
        Ok(())
    }

    /// The key that all secrets are sealed with. A new one is made only while there are none.
    fn proven_key(&self, connection: &Connection) -> Result<Key, JobError> {
        let any: bool =
            connection.query_row("SELECT EXISTS (SELECT 1 FROM secrets)", [], |row| row.get(0))?;
        let proof: Option<Vec<u8>> = connection
            .prepare_cached("SELECT proof FROM secret_key")?
            .query_row([], |row| row.get(0))
            .optional()?;
        let key = if any { self.key_file.read()? } else { self.key_file.read_or_make()? };
        match proof {
            Some(proof) if any => {
                key.open(&proof, self.instance.as_bytes())?;
            }
            _ => {
                connection
                    .prepare_cached("INSERT OR REPLACE INTO secret_key (one, proof) VALUES (1, ?1)")?
                    .execute([key.seal(PROOF, self.instance.as_bytes())?])?;
            }
        }
        Ok(key)
    }
}

fn find(
    connection: &Connection,
    owner: &Owner,
    name: &SecretName,
) -> Result<Option<(String, Vec<u8>)>, JobError> {
    let mut statement =
        connection.prepare_cached("SELECT record, sealed FROM secrets WHERE owner = ?1 AND name = ?2")?;
    let row = statement
        .query_row([owner.as_str(), name.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(row)
}

/// The words that a value is bound to. No part can contain the line feed that ends it.
fn bound_to(instance: &str, owner: &Owner, name: &SecretName, record: &str) -> Vec<u8> {
    format!("{instance}\n{owner}\n{name}\n{record}").into_bytes()
}

impl From<KeyError> for JobError {
    fn from(error: KeyError) -> Self {
        let kind = match &error {
            KeyError::Lost { .. } | KeyError::NotAKey { .. } | KeyError::Other => CatalogErrorKind::WrongKey,
            KeyError::Damaged => CatalogErrorKind::Damaged,
            KeyError::Write { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                CatalogErrorKind::Full
            }
            KeyError::Read { .. } | KeyError::Write { .. } | KeyError::Random(_) => CatalogErrorKind::Host,
        };
        Self::Key { kind, source: error }
    }
}

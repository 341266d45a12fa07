use rusqlite::{Connection, OptionalExtension as _, params};
use warren_core::Owner;
use warren_core::catalog::{CatalogErrorKind, Idempotency};

use super::failure::JobError;
use super::integer;

/// How long a caller may repeat a request.
const MEMORY_MS: u64 = 24 * 3600 * 1000;

/// Does the job and remembers the key. If the key was used before, returns what for instead.
pub(super) fn once(
    connection: &Connection,
    idempotency: Option<&Idempotency>,
    job: impl FnOnce() -> Result<(), JobError>,
) -> Result<Option<Idempotency>, JobError> {
    let Some(idempotency) = idempotency else { return job().map(|()| None) };
    forget(connection, idempotency.at_unix_ms)?;
    let earlier = find(connection, &idempotency.owner, &idempotency.key)?;
    if earlier.is_none() {
        job()?;
        insert(connection, idempotency)?;
    }
    Ok(earlier)
}

pub(super) fn find(
    connection: &Connection,
    owner: &Owner,
    key: &str,
) -> Result<Option<Idempotency>, JobError> {
    let found: Option<(String, String, i64)> = connection
        .prepare_cached("SELECT fingerprint, session, at FROM idempotency WHERE owner = ?1 AND key = ?2")?
        .query_row([owner.as_str(), key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((fingerprint, session, at)) = found else { return Ok(None) };
    let session = session
        .parse()
        .map_err(|_| JobError::refused(CatalogErrorKind::Damaged, "the key has an invalid session id"))?;
    let at_unix_ms = u64::try_from(at).unwrap_or(0);
    Ok(Some(Idempotency { owner: owner.clone(), key: key.to_owned(), fingerprint, session, at_unix_ms }))
}

fn insert(connection: &Connection, idempotency: &Idempotency) -> Result<(), JobError> {
    connection
        .prepare_cached(
            "INSERT INTO idempotency (owner, key, fingerprint, session, at) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            idempotency.owner.as_str(),
            idempotency.key,
            idempotency.fingerprint,
            idempotency.session.as_str(),
            integer(idempotency.at_unix_ms),
        ])?;
    Ok(())
}

/// Forgets keys that are more than a day older than this moment.
pub(super) fn forget(connection: &Connection, now_unix_ms: u64) -> Result<(), JobError> {
    connection
        .prepare_cached("DELETE FROM idempotency WHERE at < ?1")?
        .execute([integer(now_unix_ms.saturating_sub(MEMORY_MS))])?;
    Ok(())
}

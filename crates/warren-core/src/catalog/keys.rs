use super::CatalogError;
use crate::key::KeyRecord;
use crate::owner::Owner;
use crate::unique::KeyId;

/// Records of API keys. Every change is acknowledged with [`super::Durability::Disk`].
pub trait KeyCatalog: Send + Sync {
    fn insert_key(&self, record: &KeyRecord) -> Result<(), CatalogError>;

    /// By the hash of what a caller showed. Revoked ones are found too, and say so.
    fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRecord>, CatalogError>;

    /// Keys of one owner, or of all when there is none, the oldest first, revoked ones included.
    fn keys(&self, owner: Option<&Owner>) -> Result<Vec<KeyRecord>, CatalogError>;

    /// Idempotent: the time of the first revocation stays.
    fn revoke_key(&self, id: &KeyId, at_unix_ms: u64) -> Result<KeyRecord, CatalogError>;
}

use serde::{Deserialize, Serialize};

use crate::owner::Owner;
use crate::unique::KeyId;

/// The catalog's record of an API key, without the key itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    pub id: KeyId,
    pub owner: Owner,
    /// For people: what the key is used for.
    pub name: String,
    pub scope: Scope,
    /// SHA-256 of the key, lower-case hex. A key has 160 random bits, so a slow hash would protect
    /// nothing more.
    pub hash: String,
    /// The key's first characters, by which people tell keys apart.
    pub hint: String,
    pub created_unix_ms: u64,
    pub revoked_unix_ms: Option<u64>,
}

/// The rights of a key; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look at the owner's things.
    Read,
    /// Make, use and end them.
    Use,
    /// Also manage keys and templates, and act for other owners.
    Admin,
}

use std::fmt;

use serde::{Deserialize, Serialize};

/// A new key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"name": "ci", "scope": "use"})))]
pub struct CreateKey {
    /// For people: what the key is used for.
    #[cfg_attr(
        feature = "schema",
        schema(min_length = 1, max_length = 128, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$", example = "ci")
    )]
    pub name: String,
    /// The rights of the key.
    pub scope: Scope,
    /// The owner of the key. Left out: the caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[a-z0-9][a-z0-9._-]{0,62}$"))]
    pub owner: Option<String>,
}

/// A key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Key {
    #[cfg_attr(feature = "schema", schema(pattern = "^key-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))]
    pub key_id: String,
    /// The key itself. Only in the answer that made it: nobody can read it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^wrn_[0-9a-f]{40}$"))]
    pub key: Option<String>,
    pub name: String,
    pub scope: Scope,
    pub owner: String,
    /// The key's first characters, by which people tell keys apart.
    pub hint: String,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    /// Present once it is worth nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub revoked_at: Option<String>,
}

/// The key itself never reaches a log.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("key_id", &self.key_id)
            .field("name", &self.name)
            .field("scope", &self.scope)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// Every key, revoked ones too, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KeyList {
    pub items: Vec<Key>,
}

/// The rights of a key; each includes those before it: look at its owner's things; make, use and
/// end them; manage keys and templates, and act for other owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Scope {
    Read,
    Use,
    Admin,
}

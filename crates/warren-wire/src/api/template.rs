use serde::{Deserialize, Serialize};

/// A root that sandboxes start from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Template {
    #[cfg_attr(feature = "schema", schema(pattern = "^[a-z0-9][a-z0-9._-]{0,62}$"))]
    pub name: String,
    /// Of its content. Empty where it cannot be read.
    pub digest: String,
    pub size_bytes: u64,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    /// Where it came from: `built_in`, `directory`, `archive` or `image`.
    pub source: String,
    /// The user of processes that ask for none.
    pub user: String,
    /// Where processes start that ask for no other place.
    #[serde(default)]
    pub cwd: String,
    /// The same as `cwd`, for clients that know it by this name.
    #[cfg_attr(feature = "schema", schema(deprecated))]
    pub workdir: String,
    /// Why it cannot be used. Absent when it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// Every template, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateList {
    pub items: Vec<Template>,
}

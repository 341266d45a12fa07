use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret to keep. With a placeholder, that text is replaced in the headers of requests;
/// otherwise a header is set.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"value": "sk-123", "hosts": ["api.example.com"]})))]
pub struct PutSecret {
    /// The secret itself: printable ASCII, with no spaces at the ends. Nobody can read it again.
    #[cfg_attr(
        feature = "schema",
        schema(min_length = 1, max_length = 16_384, pattern = r"^[!-~]([ -~]*[!-~])?$", write_only)
    )]
    pub value: String,
    /// The hosts that it may go to, over TLS: `api.example.com`, `*.example.com`,
    /// `api.example.com:443`.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 32))]
    pub hosts: Vec<String>,
    /// The header that it is put into, whatever the client sent in it. Left out: `Authorization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[A-Za-z0-9_-]{1,64}$"))]
    pub header: Option<String>,
    /// The header's value, with `{}` where the secret goes. Left out: `Bearer {}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 256, pattern = r"^[ -~]*\{\}[ -~]*$"))]
    pub template: Option<String>,
    /// Instead of a header: a text that programs in the sandbox are given, and that is replaced
    /// wherever it stands in a header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[A-Za-z0-9._-]{8,128}$"))]
    pub placeholder: Option<String>,
}

/// All that is told about a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Secret {
    #[cfg_attr(feature = "schema", schema(pattern = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"))]
    pub name: String,
    /// The hosts that it may go to.
    pub hosts: Vec<String>,
    /// The header that it is put into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The header's value, with `{}` where the secret goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The text that is replaced by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub changed_at: String,
}

/// Every secret of the owner's, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SecretList {
    pub items: Vec<Secret>,
}

/// The secret itself never reaches a log.
impl fmt::Debug for PutSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PutSecret").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

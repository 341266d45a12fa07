use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a request was not served: the body of every answer with a status of 400 or more, as
/// `application/problem+json` (RFC 9457). Programs branch on `code`, never on the texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Problem {
    /// A URN made of the code.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schema(example = "urn:warren:problem:not_found"))]
    pub kind: String,
    /// The same for every problem with this code.
    #[cfg_attr(feature = "schema", schema(example = "Not found"))]
    pub title: String,
    /// The HTTP status.
    #[cfg_attr(feature = "schema", schema(minimum = 400, maximum = 599, example = 404))]
    pub status: u16,
    /// The reason this time, for people.
    #[cfg_attr(feature = "schema", schema(example = "there is no sandbox `sbxaaaaaaaaaaaaaaaaaaaaaaaaaa`"))]
    pub detail: String,
    /// The kind of problem. Codes are stable.
    #[cfg_attr(feature = "schema", schema(pattern = "^[a-z][a-z0-9_]*$", example = "not_found"))]
    pub code: String,
    /// Names the request in the server's log; the same as the header `X-Request-Id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The field of the body, or the query parameter or header, that is to blame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The state that stood in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Requests that are allowed in that state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// When the same request may work, in seconds; the same as the header `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub retry_after_s: Option<u64>,
    /// Data of this kind of problem, such as the `conflicts` of a merge.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, Value>,
}

impl Problem {
    /// The `type` of problems with this code.
    pub fn urn(code: &str) -> String {
        format!("urn:warren:problem:{code}")
    }
}

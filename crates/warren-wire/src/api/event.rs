use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Event {
    /// Grows with every event, over restarts too. Some numbers belong to other owners' events.
    pub number: u64,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub at: String,
    /// The kind of event. New words may come; ignore those you do not know.
    #[cfg_attr(feature = "schema", schema(pattern = "^[a-z_]+$", example = "sandbox_ready"))]
    pub event: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Data of this kind of event, such as `took_ms` or `cause`.
    #[serde(default)]
    pub data: BTreeMap<String, Value>,
}

/// Events, the oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventPage {
    pub items: Vec<Event>,
    /// Give this back as `after` to go on. It grows even where a filter left everything out.
    pub next_after: u64,
}

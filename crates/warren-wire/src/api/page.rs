use serde::{Deserialize, Serialize};

/// A part of a list, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// At most as many as were asked for.
    pub items: Vec<T>,
    /// Give this back as `cursor` to go on. Null at the end of the list.
    pub next_cursor: Option<String>,
}

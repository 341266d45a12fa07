use serde::Serialize;

/// Which part of a long list is wanted. Lists are ordered by creation, the newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// At most this many, 1 to [`PageRequest::MOST`].
    pub limit: u32,
    /// The value of [`Page::next`], to go on after it.
    pub after: Option<Cursor>,
}

/// A place in a list: the creation time and id of the last item seen. Stable while items come and
/// go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub created_unix_ms: u64,
    pub id: String,
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Present when there is more.
    #[serde(skip)]
    pub next: Option<Cursor>,
}

impl PageRequest {
    pub const MOST: u32 = 1000;
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { limit: 100, after: None }
    }
}

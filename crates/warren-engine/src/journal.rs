//! The journal: what was done in a sandbox, bound to the states before and after.

use std::path::Path;

use warren_core::{JournalEntry, Owner, SandboxId};

use crate::{Engine, EngineError};

/// A journal entry with what it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    pub entry: JournalEntry,
    /// Paths that differ between the states before and after; absent where one of them is not known any more.
    pub changed: Option<u64>,
}

/// Who last changed a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blame {
    /// The newest first; several where commands overlapped. Empty: it is as the sandbox began with it.
    pub entries: Vec<JournalEntry>,
}

fn missing() -> EngineError {
    EngineError::NothingFits(vec![("the journal".to_owned(), "is not there yet".to_owned())])
}

impl Engine {
    /// The newest first, from the entry before `before` on. `count` tells for each how many paths it changed.
    pub async fn journal(
        &self,
        _owner: &Owner,
        _id: &SandboxId,
        _before: Option<u64>,
        _limit: u32,
        _count: bool,
    ) -> Result<Vec<LogEntry>, EngineError> {
        Err(missing())
    }

    /// Which command last wrote a path.
    pub async fn blame(&self, _owner: &Owner, _id: &SandboxId, _path: &Path) -> Result<Blame, EngineError> {
        Err(missing())
    }
}

use super::{CatalogError, Durability};
use crate::id::SandboxId;
use crate::journal::{JournalEntry, ToolAnswer};
use crate::owner::Owner;

/// The journal of operations in sandboxes. Forgotten together with the sandbox's record.
pub trait JournalCatalog: Send + Sync {
    /// Adds an entry and gives it the sandbox's next number, which is returned. The sandbox's
    /// record must be there.
    fn append_entry(&self, entry: &JournalEntry, durability: Durability) -> Result<u64, CatalogError>;

    /// Replaces entries by their numbers, all or none. One that is not there is left out.
    fn update_entries(&self, entries: &[JournalEntry], durability: Durability) -> Result<(), CatalogError>;

    /// A sandbox's entries with a number less than `before` (absent: all), at most `limit`, the
    /// newest first.
    fn entries(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<JournalEntry>, CatalogError>;

    fn entry(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
        number: u64,
    ) -> Result<Option<JournalEntry>, CatalogError>;

    /// A sandbox's entries that have not ended, or whose state after is not known, the oldest
    /// first.
    fn open_entries(&self, sandbox: &SandboxId) -> Result<Vec<JournalEntry>, CatalogError>;

    /// Writes down that a tool call begins. If the call id was used before in this sandbox, nothing
    /// is written and that call is returned.
    fn begin_call(&self, call: &ToolAnswer) -> Result<Option<ToolAnswer>, CatalogError>;

    /// Writes down the answer to a call that began; `None` forgets the call, so that it may be made
    /// again. A call that has an answer keeps it, and one that is not there is not missed.
    fn finish_call(&self, sandbox: &SandboxId, call: &str, answer: Option<&str>) -> Result<(), CatalogError>;
}

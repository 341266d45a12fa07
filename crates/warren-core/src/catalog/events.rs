use super::CatalogError;
use crate::event::EventRecord;
use crate::id::SandboxId;
use crate::owner::Owner;
use crate::unique::SessionId;

/// Which events are wanted. The default is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    pub sandbox: Option<SandboxId>,
    pub session: Option<SessionId>,
}

impl EventFilter {
    pub fn includes(&self, event: &EventRecord) -> bool {
        self.sandbox.as_ref().is_none_or(|id| event.sandbox.as_ref() == Some(id))
            && self.session.as_ref().is_none_or(|id| event.session.as_ref() == Some(id))
    }
}

/// The log of events. Appended in the background, so the last moments before a crash may be
/// missing.
pub trait EventLog: Send + Sync {
    /// Adds events, all or none, and gives each its number, which is greater than every one given
    /// before. Returns the numbers, in the order of the events. A reader never finds an event later
    /// that has a smaller number than one it has read, however many engines append. Acknowledged
    /// with [`super::Durability::Process`].
    fn append_events(&self, events: &[EventRecord]) -> Result<Vec<u64>, CatalogError>;

    /// One owner's events after a number that the filter lets through, at most `limit`, the oldest
    /// first.
    fn events(
        &self,
        owner: &Owner,
        filter: &EventFilter,
        after: u64,
        limit: u32,
    ) -> Result<Vec<EventRecord>, CatalogError>;

    /// The greatest number ever given; zero when there is none.
    fn last_event(&self) -> Result<u64, CatalogError>;

    /// Forgets events before this time. Says how many.
    fn forget_events(&self, before_unix_ms: u64) -> Result<u64, CatalogError>;
}

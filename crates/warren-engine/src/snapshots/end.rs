use std::time::Duration;

use warren_core::catalog::SnapshotFilter;
use warren_core::{Owner, PageRequest, SessionId, SessionRecord, SnapshotReason};

use super::{EndedSession, Taken};
use crate::blocking::finished;
use crate::driver::CaptureOrder;
use crate::{Engine, EngineError, Release};

impl Engine {
    /// Captures the state that a session leaves, then gives the session back: its sandbox is stopped with its files kept, unless
    /// another session holds it. Another session can begin with the snapshot. Repeated, it answers with the same snapshot.
    pub async fn end_session(&self, owner: &Owner, id: &SessionId) -> Result<EndedSession, EngineError> {
        let (engine, owner, id) = (self.clone(), owner.clone(), id.clone());
        finished(async move { engine.end_session_now(&owner, &id).await }).await
    }

    async fn end_session_now(&self, owner: &Owner, id: &SessionId) -> Result<EndedSession, EngineError> {
        self.may_change()?;
        let session = self.session_to_end(owner, id).await?;
        if let Some(taken) = self.last_of(&session).await? {
            let session = self.release(owner, id, Release::KeepAlive).await?;
            return Ok(EndedSession { session, taken });
        }
        let asked = CaptureOrder::asked(SnapshotReason::End);
        let order = CaptureOrder { durable: true, session: Some(id.clone()), ..asked };
        let taken = self.take(owner, &session.sandbox, order).await?;
        let session = self.release(owner, id, Release::KeepAlive).await?;
        Ok(EndedSession { session, taken })
    }

    /// What an earlier end of a session that no longer holds its sandbox captured.
    async fn last_of(&self, session: &SessionRecord) -> Result<Option<Taken>, EngineError> {
        if session.state.is_open() {
            return Ok(None);
        }
        let filter = SnapshotFilter { session: Some(session.id.clone()), ..SnapshotFilter::default() };
        let page = PageRequest { limit: PageRequest::MOST, after: None };
        let found = self.snapshots(&session.owner, &filter, &page).await?;
        let last = found.items.into_iter().find(|snapshot| snapshot.reason == SnapshotReason::End);
        Ok(last.map(|snapshot| Taken { snapshot, frozen: Duration::ZERO, took: Duration::ZERO }))
    }
}

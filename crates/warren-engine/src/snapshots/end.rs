use std::time::Duration;

use warren_core::catalog::SnapshotFilter;
use warren_core::{PageRequest, SessionRecord, SessionRequest, SnapshotReason};

use super::{EndedSession, Taken};
use crate::cell::CaptureOrder;
use crate::ports::finished;
use crate::{Engine, EngineError, Release, Session};

impl Session {
    /// Captures the state that a session leaves, then gives the session back: its sandbox is
    /// stopped with its files kept, unless another session holds it. Another session can begin with
    /// the snapshot. Repeated, it answers with the same snapshot.
    pub async fn end(&self) -> Result<EndedSession, EngineError> {
        finished(self.clone().end_now()).await
    }

    async fn end_now(self) -> Result<EndedSession, EngineError> {
        self.engine.may_change()?;
        let session = self.engine.asked(self.owner(), &self.id, SessionRequest::Release).await?;
        if let Some(taken) = self.engine.last_of(&session).await? {
            let session = self.release(Release::KeepAlive).await?;
            return Ok(EndedSession { session, taken });
        }
        let asked = CaptureOrder::asked(SnapshotReason::End);
        let order = CaptureOrder { durable: true, session: Some(self.id.clone()), ..asked };
        let taken = self.engine.take(self.owner(), &session.sandbox, order).await?;
        let session = self.release(Release::KeepAlive).await?;
        Ok(EndedSession { session, taken })
    }
}

impl Engine {
    /// The snapshot that an earlier end of the session took, if it no longer holds its sandbox.
    async fn last_of(&self, session: &SessionRecord) -> Result<Option<Taken>, EngineError> {
        if session.state.is_open() {
            return Ok(None);
        }
        let filter = SnapshotFilter { session: Some(session.id.clone()), ..SnapshotFilter::default() };
        let page = PageRequest { limit: PageRequest::MOST, after: None };
        let found = self.itself(&session.owner).snapshots().list(&filter, &page).await?;
        let last = found.items.into_iter().find(|snapshot| snapshot.reason == SnapshotReason::End);
        Ok(last.map(|snapshot| Taken { snapshot, frozen: Duration::ZERO, took: Duration::ZERO }))
    }
}

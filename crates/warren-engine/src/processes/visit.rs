use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;
use warren_core::{Action, DenyReason, Outcome, Request, SandboxId, SandboxRecord};
use warren_wire::guest::FailureCode;

use super::PortStream;
use crate::cell::Life;
use crate::entry::Entry;
use crate::shown::cut;
use crate::{Engine, EngineError, Sandbox};

/// The times between two looks at a port that is not open yet.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LATER_LOOKS: Duration = Duration::from_millis(500);

/// Leave to bring traffic to a sandbox's ports. While it exists the sandbox is not frozen for
/// idleness; nobody has to wait for it before the sandbox is paused or goes back to an earlier
/// state.
#[derive(Debug)]
pub struct Visit {
    entry: Arc<Entry>,
}

/// Names one life of a sandbox: the time between one start of it and its end.
#[derive(Clone)]
pub struct LifeMark(Weak<Life>);

impl Sandbox {
    /// Comes in with traffic for ports. A sandbox that paused for want of work is thawed, and one
    /// that somebody paused goes on if it wakes for traffic.
    pub async fn visit(&self) -> Result<Visit, EngineError> {
        match self.come_in().await {
            Err(EngineError::Denied { reason: DenyReason::Paused, .. }) => {
                self.wake().await?;
                self.come_in().await
            }
            come => come,
        }
    }

    async fn come_in(&self) -> Result<Visit, EngineError> {
        let entry = self.enter_among(&self.engine.shared.visits, Request::Execute).await?;
        entry.step_aside();
        Ok(Visit { entry: Arc::new(entry) })
    }

    /// A connection to a TCP port on the sandbox's loopback. The sandbox counts as used while it
    /// exists.
    pub async fn connect(&self, port: u16) -> Result<PortStream, EngineError> {
        let visit = self.visit().await?;
        Ok(visit.connect(port).await?.held_by(Arc::clone(&visit.entry)))
    }
}

impl Engine {
    /// A sandbox of any owner that lives: for callers that come without their owner's key.
    pub fn live(&self, id: &SandboxId) -> Option<Arc<SandboxRecord>> {
        self.shared.registry.get(id).map(|cell| cell.record()).filter(|record| record.is_live())
    }

    /// All sandboxes of all owners that live: for the machine's operator.
    pub fn living(&self) -> Vec<Arc<SandboxRecord>> {
        let records = self.shared.registry.all().into_iter().map(|cell| cell.record());
        records.filter(|record| record.is_live()).collect()
    }
}

impl Visit {
    /// A connection to a TCP port on the sandbox's loopback. It may outlast the visit: a connection
    /// that rests does not keep the sandbox from resting too. In a sandbox that traffic has just
    /// woken, a port that nobody listens on yet is waited for.
    pub async fn connect(&self, port: u16) -> Result<PortStream, EngineError> {
        let door = &self.entry.door;
        let (woken, mut rest) = (&self.entry.engine.shared.woken, FIRST_LOOK);
        loop {
            let fresh = woken.is_fresh(&door.id);
            match door.reach(port).await {
                Err(EngineError::Refused(closed)) if fresh && closed.code == FailureCode::NotFound => {
                    sleep(rest).await;
                    rest = (rest * 2).min(LATER_LOOKS);
                }
                reached => return reached,
            }
        }
    }

    /// As [`Visit::connect`], without waiting.
    pub async fn connect_now(&self, port: u16) -> Result<PortStream, EngineError> {
        self.entry.door.reach(port).await
    }

    /// Begins a journal entry, for traffic that changes files. It ends with [`Visit::done`], or
    /// with the visit.
    pub async fn begin(&self, tool: &str, summary: &str) {
        let action = Action::Tool { tool: tool.to_owned(), call: None, summary: cut(summary) };
        self.entry.begin(action, None).await;
    }

    /// The number of its entry in the journal, if one was written.
    pub fn number(&self) -> Option<u64> {
        self.entry.number()
    }

    /// The work is over; `failure` says why it failed.
    pub fn done(&self, failure: Option<&str>) {
        self.entry.close(Outcome { exit_code: None, detail: failure.map(cut) });
    }

    /// Which life of the sandbox it is.
    pub fn life(&self) -> LifeMark {
        LifeMark(Arc::downgrade(&self.entry.door.life))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.done(None);
    }
}

impl LifeMark {
    /// True if the life has ended.
    pub fn is_over(&self) -> bool {
        self.0.upgrade().is_none_or(|life| life.ended().is_some())
    }
}

impl PartialEq for LifeMark {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Eq for LifeMark {}

impl fmt::Debug for LifeMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LifeMark").field("over", &self.is_over()).finish()
    }
}

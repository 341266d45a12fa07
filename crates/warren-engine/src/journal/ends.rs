//! Watches processes that nobody follows until they end. One task watches them all, so that a
//! process costs a connection and no more; and only so many of a sandbox have one, the others are
//! looked at now and then.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, mpsc};
use warren_core::{Event, Outcome, SandboxId};
use warren_wire::guest::{Exit, ProcessId, ProcessSelector};

use super::open::{outcome_of, process_of};
use crate::cell::{Cell, Door};
use crate::engine::closed;
use crate::error::sentence;
use crate::guest::Guest;
use crate::state::{Job, Unwatched};
use crate::{Engine, EngineError};

/// Connections of one sandbox's agent that wait for ends; the agent has some hundred for everybody.
const CONNECTIONS: usize = 128;
/// How often a process without a connection of its own is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The longest rest between two calls that break: an agent that does not answer now may do so
/// later.
const LONGEST_REST: Duration = Duration::from_secs(60);

impl Engine {
    /// Watches until the engine ends.
    pub(crate) async fn keep_watching_ends(self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        let mut closing = self.shared.closing.subscribe();
        let mut lines: HashMap<SandboxId, Arc<Semaphore>> = HashMap::new();
        let mut busy: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = closed(&mut closing) => return,
                Some(job) = jobs.recv() => busy.push(match job {
                    Job::Watch(unwatched) => {
                        let id = unwatched.door.id.clone();
                        let lines = lines.entry(id).or_insert_with(|| Arc::new(Semaphore::new(CONNECTIONS)));
                        Box::pin(keep(self.inner(), *unwatched, Arc::clone(lines)))
                    }
                    Job::Capture(cell) => Box::pin(self.state_after(cell)),
                }),
                Some(()) = busy.next() => {
                    if busy.is_empty() {
                        lines.clear();
                    }
                }
            }
        }
    }

    /// Entries that an earlier engine left open, of a sandbox that runs.
    pub(crate) async fn take_up_entries(&self, cell: &Arc<Cell>) {
        let id = cell.id.clone();
        let open = match self.catalog(move |catalog| catalog.open_entries(&id)).await {
            Ok(open) => open,
            Err(error) => {
                self.fault();
                tracing::error!(sandbox.id = %cell.id, error = sentence(&error), "cannot read the journal");
                return;
            }
        };
        let door = Door::of(cell, cell.life());
        for entry in open.into_iter().filter(|entry| entry.ended_unix_ms.is_none()) {
            if self.shared.journal.goes_on(&entry) {
                continue;
            }
            self.shared.journal.begin(&entry);
            match process_of(&entry) {
                Some(process) => {
                    let unwatched = Unwatched { door: door.clone(), entry, process };
                    self.shared.journal.later(Job::Watch(Box::new(unwatched)));
                }
                None => self.close_entry(&door, entry, not_seen()),
            }
        }
    }
}

/// The outcome of an entry whose end nobody saw.
pub(super) fn not_seen() -> Outcome {
    Outcome { exit_code: None, detail: Some("its end was not seen".to_owned()) }
}

/// Watches until the process ends, and closes its entry.
async fn keep(engine: Engine, unwatched: Unwatched, lines: Arc<Semaphore>) {
    let outcome = match see(&unwatched, &lines).await {
        Ok(exit) => {
            let Exit { code: exit_code, duration_ms, .. } = exit;
            let ended = Event::ExecEnded { process: unwatched.process, exit_code, duration_ms };
            engine.emit(&unwatched.entry.owner, Some(&unwatched.door.id), None, ended);
            outcome_of(&exit)
        }
        Err(EngineError::SandboxEnded { detail, .. }) => {
            Outcome { exit_code: None, detail: Some(format!("it ended with its sandbox: {detail}")) }
        }
        Err(_) => not_seen(),
    };
    engine.close_entry(&unwatched.door, unwatched.entry, outcome);
}

async fn see(unwatched: &Unwatched, lines: &Semaphore) -> Result<Exit, EngineError> {
    let guest = Guest::unobserved(unwatched.door.clone());
    let process = ProcessSelector::Id(ProcessId(unwatched.process));
    let mut rest = LOOK_EVERY;
    loop {
        let outcome = match lines.try_acquire() {
            Ok(_line) => guest.wait(process.clone()).await.map(Some),
            Err(_) => guest.process(&process).await.map(|found| found.exit),
        };
        match outcome {
            Ok(Some(exit)) => return Ok(exit),
            Ok(None) => rest = LOOK_EVERY,
            Err(error @ (EngineError::SandboxEnded { .. } | EngineError::NotFound { .. })) => {
                return Err(error);
            }
            Err(_) => rest = LONGEST_REST.min(rest * 2),
        }
        tokio::time::sleep(rest).await;
    }
}

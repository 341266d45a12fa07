//! Watches whose clients come and ask what happened. Each has a task of its own, which takes what
//! the sandbox tells and keeps it until it is asked for; asking also fetches what has happened
//! until that moment. A watcher ends with its sandbox, or when it is told to.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot};
use warren_core::SandboxId;
use warren_engine::{EngineError, Watch};
use warren_wire::guest::{self, WatchKind};

use super::changes::{Watched, is_over, lost};
use super::place;
use crate::envd::Envd;
use crate::envd::Visitor;
use crate::envd::rpc::RpcError;
use crate::filesystem::{
    CreateWatcherRequest, CreateWatcherResponse, GetWatcherEventsRequest, GetWatcherEventsResponse,
    RemoveWatcherRequest, RemoveWatcherResponse,
};
use crate::rpc::Code;

/// Watchers of one sandbox.
const MOST_WATCHERS: usize = 256;

/// The events that are kept for a client that does not ask.
const MOST_KEPT: usize = 1 << 16;
const MOST_KEPT_BYTES: usize = 8 << 20;

/// A client that waits for events.
type Asker = oneshot::Sender<Result<Vec<guest::WatchEvent>, RpcError>>;

/// Every watcher, by its sandbox and its name.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<HashMap<SandboxId, HashMap<String, Watcher>>>);

#[derive(Clone)]
struct Watcher {
    watched: Watched,
    /// Dropping the last one ends the task.
    asks: mpsc::Sender<Asker>,
}

impl Watchers {
    /// Answers whether there was room for one more.
    fn put(&self, sandbox: &SandboxId, name: &str, watcher: Watcher) -> bool {
        let mut all = self.lock();
        let here = all.entry(sandbox.clone()).or_default();
        if here.len() >= MOST_WATCHERS {
            return false;
        }
        here.insert(name.to_owned(), watcher);
        true
    }

    fn find(&self, sandbox: &SandboxId, name: &str) -> Option<Watcher> {
        self.lock().get(sandbox)?.get(name).cloned()
    }

    fn take(&self, sandbox: &SandboxId, name: &str) -> Option<Watcher> {
        let mut all = self.lock();
        let here = all.get_mut(sandbox)?;
        let taken = here.remove(name);
        if here.is_empty() {
            all.remove(sandbox);
        }
        taken
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, HashMap<String, Watcher>>> {
        self.0.lock()
    }
}

/// Events that nobody has asked for yet.
#[derive(Default)]
struct Kept {
    events: Vec<guest::WatchEvent>,
    bytes: usize,
    lost: bool,
}

impl Kept {
    fn keep(&mut self, events: Vec<guest::WatchEvent>) {
        for event in events {
            let bytes =
                event.path.as_bytes().len() + event.renamed_to.as_ref().map_or(0, |to| to.as_bytes().len());
            if self.events.len() == MOST_KEPT || self.bytes + bytes > MOST_KEPT_BYTES {
                self.lost = true;
                return;
            }
            self.lost |= event.kind == WatchKind::Overflowed;
            self.bytes += bytes;
            self.events.push(event);
        }
    }

    /// All of it. That something was lost is told once, and what is kept beside it is of no use
    /// then.
    fn take(&mut self) -> Result<Vec<guest::WatchEvent>, RpcError> {
        let Self { events, lost: is_lost, .. } = std::mem::take(self);
        if is_lost { Err(lost()) } else { Ok(events) }
    }
}

/// Begins to watch, and says under which name.
pub(super) async fn create(
    visitor: &Visitor,
    request: CreateWatcherRequest,
) -> Result<CreateWatcherResponse, RpcError> {
    let root = place(visitor, &request.path)?;
    let watched = Watched { visitor: visitor.clone(), root, describe: request.include_entry };
    let watch = watched.begin(request.recursive).await?;
    let watcher_id = HEXLOWER.encode(&visitor.state.random.bits());
    let (asks, asked) = mpsc::channel(1);
    let (state, sandbox) = (visitor.state.clone(), visitor.sandbox.id().clone());
    if !state.watchers.put(&sandbox, &watcher_id, Watcher { watched, asks }) {
        let message = format!("the sandbox has {MOST_WATCHERS} watchers already: remove one first");
        return Err(RpcError::new(Code::ResourceExhausted, message));
    }
    tokio::spawn(run(state, (sandbox, watcher_id.clone()), watch, asked));
    Ok(CreateWatcherResponse { watcher_id })
}

/// The events since the client last asked, up to now.
pub(super) async fn events(
    visitor: &Visitor,
    request: GetWatcherEventsRequest,
) -> Result<GetWatcherEventsResponse, RpcError> {
    let none = || unknown(&request.watcher_id);
    let watcher = visitor.state.watchers.find(visitor.sandbox.id(), &request.watcher_id).ok_or_else(none)?;
    let (asker, answer) = oneshot::channel();
    watcher.asks.send(asker).await.map_err(|_| none())?;
    let changes = answer.await.map_err(|_| none())??;
    Ok(GetWatcherEventsResponse { events: watcher.watched.tell(changes).await.events })
}

pub(super) fn remove(
    visitor: &Visitor,
    request: &RemoveWatcherRequest,
) -> Result<RemoveWatcherResponse, RpcError> {
    let taken = visitor.state.watchers.take(visitor.sandbox.id(), &request.watcher_id);
    taken.map(|_| RemoveWatcherResponse {}).ok_or_else(|| unknown(&request.watcher_id))
}

fn unknown(name: &str) -> RpcError {
    RpcError::new(Code::NotFound, format!("watcher with id {name} not found"))
}

/// Keeps what the sandbox tells until it is asked for.
async fn run(state: Envd, (sandbox, name): (SandboxId, String), watch: Watch, asked: mpsc::Receiver<Asker>) {
    let ended = tokio::select! {
        ended = keep(watch, asked) => ended,
        () = state.shutdown.cancelled() => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!(sandbox.id = %sandbox, error = %warren_face::error::chain(&error), "a watcher ended");
    }
    drop(state.watchers.take(&sandbox, &name));
}

async fn keep(mut watch: Watch, mut asked: mpsc::Receiver<Asker>) -> Result<(), EngineError> {
    let (mut kept, mut over) = (Kept::default(), false);
    loop {
        let (told, asker) = tokio::select! {
            told = watch.next(), if !over => (told.map(Option::unwrap_or_default), None),
            asker = asked.recv() => {
                let Some(asker) = asker else { return Ok(()) };
                let told = if over { Ok(Vec::new()) } else { watch.flush().await };
                (told, Some(asker))
            }
        };
        match told {
            Ok(events) => kept.keep(events),
            // Nothing more will happen in a directory that is gone.
            Err(error) if is_over(&error) => over = true,
            Err(error) => return Err(error),
        }
        if let Some(asker) = asker {
            // Who asked may have gone meanwhile: then it is kept for the next.
            let answer = if asker.is_closed() { continue } else { kept.take() };
            drop(asker.send(answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: WatchKind) -> guest::WatchEvent {
        guest::WatchEvent { kind, path: "a".into(), renamed_to: None, moved_away: None }
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_was_lost_is_told_once() {
        let mut kept = Kept::default();
        kept.keep(vec![event(WatchKind::Created); MOST_KEPT]);
        assert_eq!(kept.take().unwrap().len(), MOST_KEPT);
        kept.keep(vec![event(WatchKind::Created); MOST_KEPT + 1]);
        assert!(matches!(kept.take(), Err(RpcError::Told { code: Code::DataLoss, .. })));
        assert_eq!(kept.take().unwrap(), []);
        kept.keep(vec![event(WatchKind::Created), event(WatchKind::Overflowed)]);
        assert!(kept.take().is_err() && kept.take().is_ok());
    }
}

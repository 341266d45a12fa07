//! The driver: one task per sandbox, and the only writer of its status and its record.
//!
//! ```text
//!                    mail                      watch (its first process ended)
//!                     │                          │
//!                     ▼                          ▼
//!   First ───► ┌───────────────────────────────────────┐ ended, no mail
//!   make,      │ decide ─► Isolation, on a thread      ├──────────────► leaves the registry
//!   adopt,     │   │                                   │
//!   settle     │   └─► record, generation + 1 ─► watch │
//!              └───────────────────────────────────────┘
//!                     ▲ opens and closes the gate
//!                     │
//!   Entry, Entry, Entry … come and go by the gate alone, and work at the same time
//! ```
//!
//! A letter is dealt with before the next is read, so calls to a backend about one sandbox never
//! overlap. Calls that work in the sandbox do not queue here: the gate lets them in while it is
//! ready, and only one that finds it paused for want of work writes a letter.
//!
//! [`status`] is the one place where the status changes. When something fails, its effects are
//! undone and the record stays as it was; [`unfinished`] has what could not be undone yet. An end
//! cannot be undone: it is written down first, and tried again until it has happened and is written
//! down too.

mod ask;
mod capture;
mod end;
mod history;
mod look;
mod moving;
mod network;
mod operations;
mod pause;
mod rollback;
mod settle;
mod sight;
mod start;
mod status;
mod suspend;
mod unfinished;

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::time::timeout;
use warren_core::{Isolation, Pulse, RootTree, SandboxId, SandboxRecord, SnapshotId, Status};
use warren_wire::guest::ProcessInfo;

use crate::bounds::Seat;
use crate::cell::{Cell, Door, Mail, Task};
use crate::engine::closed;
use crate::error::sentence;
use crate::guest::Guest;
use crate::ports::Backend;
use crate::{Engine, EngineError, EngineStep};

pub(crate) use self::capture::plain_row;
pub(crate) use self::network::Adopted;
use self::network::Link;
pub(crate) use self::settle::Remains;
pub(crate) use self::start::{MARK, MakeError, Making, SPARE};
use self::unfinished::Unfinished;

/// How long a driver waits for the letter it was started for.
const LETTER_PATIENCE: Duration = Duration::from_secs(1);

/// A driver's first task.
#[derive(Debug)]
pub(crate) enum First {
    /// A letter is about to come, for a sandbox whose life is over.
    Letter,
    Make(Box<Making>),
    /// It was found alive.
    Adopt {
        watch: OwnedFd,
        frozen: bool,
        link: Adopted,
    },
    /// A start of the engine found it half done or dead.
    Settle(Remains),
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Driver {
    engine: Engine,
    cell: Arc<Cell>,
    mailbox: mpsc::Receiver<Mail>,
    record: SandboxRecord,
    seat: Option<Seat>,
    watch: Option<AsyncFd<OwnedFd>>,
    /// The last pulse, and when it was taken.
    pulse: Option<(Pulse, u64)>,
    life_began_ms: u64,
    /// When it was last seen at work.
    busy_ms: u64,
    unfinished: Unfinished,
    /// A state that is known to have just the layers that the sandbox stands on, so that no copy
    /// has to be looked for.
    plain: Option<SnapshotId>,
    /// The layers of its template, where they were just found out.
    template: Option<Vec<RootTree>>,
    link: Link,
    /// Its backend is away, and nothing tells when it ends.
    out_of_sight: bool,
    /// The cell that leaves the registry with this driver.
    registered: Arc<Mutex<Arc<Cell>>>,
}

impl Driver {
    /// Registers a sandbox and starts its driver; `None` if it has one.
    pub(crate) fn start(
        engine: &Engine,
        record: SandboxRecord,
        backend: Arc<Backend>,
        seat: Option<Seat>,
        first: First,
    ) -> Option<Arc<Cell>> {
        let now_ms = engine.shared.parts.clock.boot_ms();
        let (cell, mailbox) = Cell::new(record.clone(), backend, now_ms);
        let seat = match first {
            First::Adopt { .. } => Some(engine.shared.seats.take_anyway(&record.owner)),
            First::Letter | First::Make(_) | First::Settle(_) => seat,
        };
        if !matches!(first, First::Make(_)) {
            // Nobody knows what was done to it before.
            cell.mark_changed();
        }
        let link = match first {
            First::Letter | First::Make(_) | First::Adopt { .. } => Link::None,
            // If a link is left, it is removed with the rest.
            First::Settle(_) => Link::Doomed,
        };
        if !engine.shared.registry.add(&cell) {
            return None;
        }
        let driver = Self {
            engine: engine.inner(),
            cell: Arc::clone(&cell),
            mailbox,
            record,
            seat,
            watch: None,
            pulse: None,
            life_began_ms: now_ms,
            busy_ms: now_ms,
            unfinished: Unfinished::Nothing,
            plain: None,
            template: None,
            link,
            out_of_sight: false,
            registered: Arc::new(Mutex::new(Arc::clone(&cell))),
        };
        tokio::spawn(driver.run(first));
        Some(cell)
    }

    async fn run(mut self, first: First) {
        let _registration = Registration { engine: self.engine.inner(), cell: Arc::clone(&self.registered) };
        let mut closing = self.engine.shared.closing.subscribe();
        // Boxed, so that a driver that waits takes little memory.
        if Box::pin(self.begin(first)).await.is_break() {
            return;
        }
        loop {
            self.plan_next_look();
            if self.is_over() && self.mailbox.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                () = closed(&mut closing) => break,
                mail = self.mailbox.recv() => match mail {
                    Some(mail) => Box::pin(self.answer(mail)).await,
                    None => break,
                },
                () = first_process_ended(self.watch.as_ref()) => Box::pin(self.died()).await,
            }
        }
    }

    /// Breaks if the sandbox could not even be written down.
    async fn begin(&mut self, first: First) -> ControlFlow<()> {
        match first {
            First::Letter => {
                if let Ok(Some(mail)) = timeout(LETTER_PATIENCE, self.mailbox.recv()).await {
                    self.answer(mail).await;
                }
            }
            First::Make(making) => return self.make(*making).await,
            First::Adopt { watch, frozen, link } => self.adopt(watch, frozen, link).await,
            First::Settle(remains) => {
                if let Err(error) = self.settle(remains).await {
                    let error = sentence(&error);
                    tracing::error!(sandbox.id = %self.record.id, ?remains, error, "cannot settle what is left of a sandbox");
                }
            }
        }
        ControlFlow::Continue(())
    }

    async fn answer(&mut self, mail: Mail) {
        let ready = self.catch_up().await;
        // The caller may have left; the request is carried out all the same.
        match mail {
            Mail::Do(task, reply) => {
                let done = match ready {
                    Ok(()) => self.perform(task).await,
                    Err(error) => Err(error),
                };
                drop(reply.send(done.map(|()| Arc::new(self.record.clone()))));
            }
            Mail::Capture(order, reply) => {
                let captured = match ready {
                    Ok(()) => self.capture(*order).await,
                    Err(error) => Err(error),
                };
                drop(reply.send(captured));
            }
            Mail::Suspend(order, reply) => {
                let captured = match ready {
                    Ok(()) => self.suspend(*order).await,
                    Err(error) => Err(error),
                };
                drop(reply.send(captured));
            }
            Mail::RollBack(order, reply) => {
                let rolled = match ready {
                    Ok(()) => self.roll_back(*order).await,
                    Err(error) => Err(error),
                };
                drop(reply.send(rolled.map(Box::new)));
            }
            Mail::Move(order, reply) => {
                let moved = match ready {
                    Ok(()) => self.move_to(*order).await,
                    Err(error) => Err(error),
                };
                drop(reply.send(moved.map(Box::new)));
            }
        }
    }

    async fn perform(&mut self, task: Task) -> Result<(), EngineError> {
        match task {
            Task::Pause => self.pause().await,
            Task::Resume => self.resume().await,
            Task::Thaw => self.thaw_for_work().await,
            Task::Stop(ending) => self.stop(ending).await,
            Task::Expire => self.expire().await,
            Task::Patch(patch) => self.patch(patch).await,
            Task::Network { change, by } => self.change_network(change, by).await,
            Task::Look(pulse) => self.look(pulse).await,
            Task::Forget { snapshot, parent } => self.forget(&snapshot, parent).await,
            Task::Restack { run, into } => self.restack(&run, &into).await,
        }
    }

    fn is_over(&self) -> bool {
        self.record.status.is_terminal() && self.unfinished.is_nothing() && self.link == Link::None
    }

    /// Calls the backend on one of its threads.
    async fn isolate<R: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Isolation, &SandboxId) -> R + Send + 'static,
    ) -> R {
        let (backend, id) = (Arc::clone(&self.cell.backend), self.record.id.clone());
        let port = Arc::clone(&backend.port);
        backend.work(move || work(port.as_ref(), &id)).await
    }

    /// The processes that run in it, as far as it can be asked: a frozen sandbox cannot.
    async fn running(&self) -> Vec<ProcessInfo> {
        if self.record.status != Status::Ready {
            return Vec::new();
        }
        // It would be the one to say how the sandbox ended.
        let door = Door { end_patience: Duration::ZERO, ..Door::of(&self.cell, self.cell.life()) };
        let guest = Guest::unobserved(door);
        let mut processes = guest.processes().await.unwrap_or_default();
        processes.retain(|process| process.exit.is_none());
        processes
    }

    fn watch_over(&mut self, watch: OwnedFd) {
        #[expect(
            deprecated,
            reason = "its successor needs unsafe for what an owned descriptor promises by its type"
        )]
        let registered = AsyncFd::with_interest(watch, Interest::READABLE);
        match registered {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => {
                self.engine.fault();
                tracing::error!(sandbox.id = %self.record.id, %error, "cannot wait for the end of a sandbox");
            }
        }
    }

    fn passed(&self, step: EngineStep) {
        (self.engine.shared.parts.passed)(step);
    }

    fn now_ms(&self) -> u64 {
        self.engine.shared.parts.clock.boot_ms()
    }

    fn plan_next_look(&self) {
        self.cell.due_ms.store(self.next_look_ms(), Ordering::Relaxed);
    }
}

async fn first_process_ended(watch: Option<&AsyncFd<OwnedFd>>) {
    match watch {
        Some(watch) => drop(watch.readable().await),
        None => std::future::pending().await,
    }
}

/// Takes the sandbox out of the registry when its driver ends, however that happens. The mailbox is
/// closed after that, so a caller that finds it closed finds the next driver, or none.
struct Registration {
    engine: Engine,
    cell: Arc<Mutex<Arc<Cell>>>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.engine.shared.registry.remove(&self.cell.lock());
    }
}

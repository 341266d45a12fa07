use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use warren_core::{
    Action, Activity, Caller, Event, Flush, IsolationErrorKind, Outcome, Request, SandboxRecord, SessionId,
    Verdict, decide,
};
use warren_wire::guest::{Exit, ProcessId};

use crate::bounds::InFlight;
use crate::bounds::in_flight::Place;
use crate::cell::{Door, Leave, Task, head_or_start};
use crate::guest::{Guest, Observer};
use crate::journal::OpenEntry;
use crate::{Engine, EngineError, Sandbox};

/// Permission to work in a sandbox. While it exists the sandbox counts as busy: it is not frozen
/// for idleness, and what must not overlap with work is denied.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) engine: Engine,
    caller: Arc<Caller>,
    pub(crate) door: Door,
    _place: Place,
    onlooker: AtomicBool,
    /// It may change files as long as it exists.
    changes: AtomicBool,
    /// Its entry in the journal.
    journal: Mutex<Option<OpenEntry>>,
}

impl Sandbox {
    /// Asks for permission at the sandbox's gate, thawing a sandbox that paused for want of work.
    pub(crate) async fn enter(&self, request: Request) -> Result<Entry, EngineError> {
        self.enter_among(&self.engine.shared.in_flight, request).await
    }

    /// As [`Sandbox::enter`], counted among these.
    pub(crate) async fn enter_among(
        &self,
        others: &Arc<InFlight>,
        request: Request,
    ) -> Result<Entry, EngineError> {
        if request == Request::ReadFiles {
            self.engine.may_answer()?;
        } else {
            self.engine.may_change()?;
        }
        loop {
            let Some(cell) = self.engine.shared.registry.find(self.owner(), &self.id) else {
                let record = self.engine.recorded(self.owner(), &self.id).await?;
                if record.is_live() {
                    self.engine.wake(self.owner(), &self.id).await?;
                    continue;
                }
                return Err(denied_at_the_end(&record, request));
            };
            // Also while it waits: a call that waits costs as much as one that is inside.
            let place = others.take(self.owner(), &self.id)?;
            self.engine.shared.presence.note(self.owner());
            match cell.ask_leave(request, self.engine.shared.parts.clock.boot_ms()) {
                Leave::Granted(life) => {
                    return Ok(Entry {
                        engine: self.engine.inner(),
                        caller: Arc::clone(&self.caller),
                        door: Door::of(&cell, life),
                        _place: place,
                        onlooker: AtomicBool::new(false),
                        changes: AtomicBool::new(false),
                        journal: Mutex::default(),
                    });
                }
                Leave::ThawFirst => drop(self.engine.ask(self.owner(), &self.id, Task::Thaw).await?),
                Leave::Wait(mut moved) => drop(moved.changed().await),
                Leave::Denied(status, reason) => {
                    return Err(EngineError::Denied { id: self.id.clone(), status, reason });
                }
            }
        }
    }
}

impl Engine {
    fn may_answer(&self) -> Result<(), EngineError> {
        if self.is_closed() { Err(EngineError::ShuttingDown) } else { Ok(()) }
    }
}

/// Why a sandbox that does not live denies a request.
pub(crate) fn denied_at_the_end(record: &SandboxRecord, request: Request) -> EngineError {
    match decide(record.status, Activity::default(), request) {
        Verdict::Denied(reason) => {
            EngineError::Denied { id: record.id.clone(), status: record.status, reason }
        }
        Verdict::AlreadySo | Verdict::Proceed(_) => EngineError::sandbox_not_found(&record.id),
    }
}

impl Entry {
    /// The sandbox's agent, for the work under this entry.
    pub(crate) fn guest(self: &Arc<Self>) -> Guest {
        Guest::new(self.door.clone(), Arc::<Self>::clone(self))
    }

    /// Writes down what is about to be done, with the state before it. It is closed by
    /// [`Entry::close`], or by the end of the process that is started here.
    pub(crate) async fn begin(&self, action: Action, session: Option<SessionId>) {
        let before = self.engine.state_before(&self.door).await;
        self.mark_changed();
        let open = self.engine.begin_entry(&self.caller, &self.door, action, session, before).await;
        *self.journal.lock() = open;
    }

    /// As [`Entry::begin`], for an action that changes nothing.
    pub(crate) async fn begin_look(&self, action: Action, session: Option<SessionId>) {
        let known = !self.door.cell.is_changed();
        let before = known.then(|| head_or_start(&self.door.cell.record()));
        let mut open = self.engine.begin_entry(&self.caller, &self.door, action, session, before).await;
        if let Some(open) = &mut open {
            open.only_looks();
        }
        *self.journal.lock() = open;
    }

    /// The number of its entry in the journal, if one was written.
    pub(crate) fn number(&self) -> Option<u64> {
        self.journal.lock().as_ref().map(OpenEntry::number)
    }

    pub(crate) fn close(&self, outcome: Outcome) {
        if let Some(open) = self.journal.lock().as_mut() {
            open.close(outcome);
        }
    }

    /// Notes how many files and bytes were written.
    pub(crate) fn wrote(&self, files: u64, bytes: u64) {
        if let Some(open) = self.journal.lock().as_mut() {
            open.wrote(files, bytes);
        }
    }

    /// Closes the journal entry with a failure.
    pub(crate) fn fail(&self, error: &EngineError) {
        if let Some(open) = self.journal.lock().as_mut() {
            open.fail(error);
        }
    }

    /// Marks the sandbox's files as changed from now on.
    pub(crate) fn mark_changed(&self) {
        self.changes.store(true, Ordering::Release);
        self.door.cell.mark_changed();
    }

    /// From now on it only looks on: pauses and rollbacks no longer wait for it.
    pub(crate) fn step_aside(&self) {
        if !self.onlooker.swap(true, Ordering::AcqRel) {
            self.door.life.step_aside();
        }
    }

    /// Tells followers of the owner's events.
    fn emit(&self, event: Event) {
        self.engine.emit(&self.door.cell.owner, Some(&self.door.id), None, event);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if *self.changes.get_mut() {
            self.door.cell.mark_changed();
        }
        if *self.onlooker.get_mut() {
            self.door.life.step_back();
        }
        self.door.life.go_out(self.engine.shared.parts.clock.boot_ms());
    }
}

impl Observer for Entry {
    /// Keeps the tail of the sandbox's output, for its death certificate.
    fn saw_output(&self, bytes: &[u8]) {
        self.door.cell.tail.lock().push(bytes);
    }

    fn started(&self, process: ProcessId, command: String) {
        self.engine.shared.figures.exec();
        self.emit(Event::ExecStarted { process: process.0, command });
        if let Some(open) = self.journal.lock().as_mut() {
            open.started(process.0);
        }
    }

    fn ended(&self, process: ProcessId, exit: &Exit) {
        let Exit { code: exit_code, duration_ms, .. } = *exit;
        self.emit(Event::ExecEnded { process: process.0, exit_code, duration_ms });
        if let Some(open) = self.journal.lock().as_mut() {
            open.exited(exit);
        }
    }

    /// Waits until the files are on disk, if the settings promise that for the end of a command.
    fn flush(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async {
            if self.engine.shared.settings.flush != Flush::Commands {
                return Ok(());
            }
            let (backend, id) = (&self.door.cell.backend, self.door.id.clone());
            let port = Arc::clone(&backend.port);
            match backend.ask(move || port.flush(&id)).await {
                // It was removed meanwhile, and all it wrote with it.
                Err(error) if error.kind == IsolationErrorKind::NotFound => Ok(()),
                done => done.map_err(EngineError::Backend),
            }
        })
    }
}

impl Sandbox {
    pub(crate) async fn guest(&self, request: Request) -> Result<Guest, EngineError> {
        Ok(Arc::new(self.enter(request).await?).guest())
    }
}

//! The shared view of one sandbox: its state, the calls inside it, and the way to its driver.

mod door;
mod letters;
mod network;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use warren_core::{
    Activity, Busy, DenyReason, Owner, PausedBy, Request, SandboxId, SandboxRecord, Status, Verdict, decide,
};

use crate::certificate::Tail;
use crate::ports::Backend;

pub(crate) use self::door::Door;
pub(crate) use self::letters::{
    Capture, CaptureOrder, Copying, Goal, Mail, MoveOrder, Need, Processes, RollbackOrder, SuspendOrder,
    Task, head_or_start, start_of,
};
pub use self::letters::{EndedProcess, Moved, Patch, RolledBack, Taken, WayBack};
pub(crate) use self::network::NetworkChange;

/// Letters that a driver has not read yet; the next writer waits.
const MAILBOX: usize = 16;

/// A sandbox that has a driver.
pub(crate) struct Cell {
    pub(crate) id: SandboxId,
    pub(crate) owner: Owner,
    pub(crate) backend: Arc<Backend>,
    pub(crate) mail: mpsc::Sender<Mail>,
    pub(crate) tail: Mutex<Tail>,
    /// Held while its usage is counted, which may take as long as it has files.
    pub(crate) counting: Arc<tokio::sync::Mutex<()>>,
    /// When the driver has something to look at, on the clock of the boot.
    pub(crate) due_ms: AtomicU64,
    /// Counts what may have changed its files.
    changes: AtomicU64,
    /// How many of those the state has that it was last captured in.
    captured: AtomicU64,
    /// Changes whenever callers that wait at the gate should ask again.
    moved: watch::Sender<()>,
    record: watch::Sender<Arc<SandboxRecord>>,
    gate: Mutex<Gate>,
}

/// Lets calls in or keeps them out. It is a lock, so that nobody enters between the driver's look
/// and its act. It follows the record, or is closed ahead of it: see [`Closing`].
struct Gate {
    status: Status,
    paused_by: Option<PausedBy>,
    busy: Option<Busy>,
    life: Arc<Life>,
}

/// A reason to keep calls out before the record says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// It is being frozen, or is frozen against its record. One that rests for want of work is
    /// thawed by the next call.
    Pause(PausedBy),
    /// It is being ended.
    End,
}

/// Keeps everybody else out of a sandbox that goes back to an earlier state or behind another wall,
/// until it is dropped.
#[derive(Debug)]
pub(crate) struct Exclusive {
    pub(crate) cell: Arc<Cell>,
}

/// The time between one start of a sandbox and its end.
pub(crate) struct Life {
    inside: AtomicU32,
    /// Callers inside that only look on: followers of processes that run anyway.
    onlookers: AtomicU32,
    left: Notify,
    /// When a caller last came in or went out.
    used_ms: AtomicU64,
    /// How the life ended, for open streams.
    end: watch::Sender<Option<Arc<str>>>,
}

/// The answer to a caller that wants to come in.
#[derive(Debug)]
pub(crate) enum Leave {
    Granted(Arc<Life>),
    /// It paused for want of work, and here is some: the driver has to thaw it first.
    ThawFirst,
    /// Its files are being copied: ask again when this has changed.
    Wait(watch::Receiver<()>),
    Denied(Status, DenyReason),
}

impl Cell {
    pub(crate) fn new(
        record: SandboxRecord,
        backend: Arc<Backend>,
        now_ms: u64,
    ) -> (Arc<Self>, mpsc::Receiver<Mail>) {
        let (mail, mailbox) = mpsc::channel(MAILBOX);
        let gate = Gate {
            status: record.status,
            paused_by: record.paused.as_ref().map(|paused| paused.by),
            busy: None,
            life: Arc::new(Life::begin(now_ms)),
        };
        let cell = Self {
            id: record.id.clone(),
            owner: record.owner.clone(),
            backend,
            mail,
            tail: Mutex::default(),
            counting: Arc::default(),
            due_ms: AtomicU64::new(u64::MAX),
            changes: AtomicU64::new(0),
            captured: AtomicU64::new(0),
            moved: watch::Sender::new(()),
            record: watch::Sender::new(Arc::new(record)),
            gate: Mutex::new(gate),
        };
        (Arc::new(cell), mailbox)
    }

    /// The last record that was written.
    pub(crate) fn record(&self) -> Arc<SandboxRecord> {
        Arc::clone(&self.record.borrow())
    }

    pub(crate) fn follow_record(&self) -> watch::Receiver<Arc<SandboxRecord>> {
        self.record.subscribe()
    }

    /// Takes over a written record: the gate follows it, and watchers see it.
    pub(crate) fn publish(&self, record: &SandboxRecord) {
        self.gate.lock().follow(record);
        self.moved.send_replace(());
        self.record.send_replace(Arc::new(record.clone()));
    }

    /// Keeps calls out before the record says so, until the next record or [`Cell::reopen`].
    pub(crate) fn close(&self, closing: Closing) {
        self.gate.lock().close(closing);
        self.moved.send_replace(());
    }

    /// Has the gate follow the last record again.
    pub(crate) fn reopen(&self) {
        let record = self.record();
        self.gate.lock().follow(&record);
        self.moved.send_replace(());
    }

    pub(crate) fn status(&self) -> Status {
        self.gate.lock().status
    }

    /// Lets a caller in, if that may be now.
    pub(crate) fn ask_leave(&self, request: Request, now_ms: u64) -> Leave {
        let gate = self.gate.lock();
        match gate.decide(request) {
            Verdict::Proceed(_) if gate.busy.is_some() => Leave::Wait(self.moved.subscribe()),
            Verdict::Proceed(_) | Verdict::AlreadySo => {
                gate.life.come_in(now_ms);
                Leave::Granted(Arc::clone(&gate.life))
            }
            Verdict::Denied(DenyReason::Paused) if gate.paused_by == Some(PausedBy::Idleness) => {
                Leave::ThawFirst
            }
            Verdict::Denied(reason) => Leave::Denied(gate.status, reason),
        }
    }

    /// Why a request to the driver is denied at once: the sandbox is copied, or goes back.
    pub(crate) fn occupied(&self, request: Request) -> Option<DenyReason> {
        let gate = self.gate.lock();
        match gate.decide(request) {
            Verdict::Denied(
                reason @ (DenyReason::RollbackInProgress
                | DenyReason::MoveInProgress
                | DenyReason::SnapshotInProgress),
            ) => Some(reason),
            Verdict::Denied(_) | Verdict::AlreadySo | Verdict::Proceed(_) => None,
        }
    }

    /// Keeps everybody else out for a rollback, if that may be now. With `force` it does not matter
    /// that calls are inside.
    pub(crate) fn occupy(self: &Arc<Self>, force: bool) -> Result<Exclusive, (Status, DenyReason)> {
        self.occupy_for(Busy::Rollback, force)
    }

    /// As [`Cell::occupy`], for this.
    pub(crate) fn occupy_for(
        self: &Arc<Self>,
        busy: Busy,
        force: bool,
    ) -> Result<Exclusive, (Status, DenyReason)> {
        let files_kept = self.record().files_kept();
        let mut gate = self.gate.lock();
        let mut activity = Activity { files_kept, ..gate.activity() };
        if force {
            activity.tools_in_flight = 0;
        }
        match decide(gate.status, activity, Request::Rollback) {
            Verdict::Denied(reason) => Err((gate.status, reason)),
            Verdict::AlreadySo | Verdict::Proceed(_) => {
                gate.busy = Some(busy);
                Ok(Exclusive { cell: Arc::clone(self) })
            }
        }
    }

    /// Keeps everybody else out, whatever its state. For its driver.
    pub(crate) fn keep_out(self: &Arc<Self>, busy: Busy) -> Exclusive {
        self.gate.lock().busy = Some(busy);
        Exclusive { cell: Arc::clone(self) }
    }

    /// True if it paused for want of work.
    pub(crate) fn rests(&self) -> bool {
        let gate = self.gate.lock();
        gate.status == Status::Paused && gate.paused_by == Some(PausedBy::Idleness)
    }

    /// Has calls wait while the sandbox stands still to be copied. A rollback that waits for its
    /// turn keeps them out already.
    pub(crate) fn begin_copy(&self) {
        self.gate.lock().busy.get_or_insert(Busy::Snapshot);
    }

    pub(crate) fn end_copy(&self) {
        self.gate.lock().busy.take_if(|busy| *busy == Busy::Snapshot);
        self.moved.send_replace(());
    }

    /// Something happened that may have changed its files.
    pub(crate) fn mark_changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// How often its files may have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The state that it was in after so many changes is its head.
    pub(crate) fn set_captured(&self, changes: u64) {
        self.captured.store(changes, Ordering::Release);
    }

    /// True if its files may differ from those of its head.
    pub(crate) fn is_changed(&self) -> bool {
        self.changes() != self.captured.load(Ordering::Acquire)
    }

    /// Closes the gate for want of work. Says no if a call is inside or came by since
    /// `idle_since_ms`, or if the sandbox may not pause now.
    pub(crate) fn close_if_unused(&self, idle_since_ms: u64) -> bool {
        let mut gate = self.gate.lock();
        let unused = gate.life.inside() == 0 && gate.life.used_ms() <= idle_since_ms;
        let may_pause = !matches!(gate.decide(Request::Pause), Verdict::Denied(_));
        if unused && may_pause {
            gate.close(Closing::Pause(PausedBy::Idleness));
        }
        unused && may_pause
    }

    pub(crate) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.gate.lock().life)
    }

    /// Begins another life. Callers inside the last one do not belong to it.
    pub(crate) fn begin_life(&self, now_ms: u64) {
        self.gate.lock().life = Arc::new(Life::begin(now_ms));
    }
}

impl Gate {
    fn follow(&mut self, record: &SandboxRecord) {
        self.status = record.status;
        self.paused_by = record.paused.as_ref().map(|paused| paused.by);
    }

    fn close(&mut self, closing: Closing) {
        (self.status, self.paused_by) = match closing {
            Closing::Pause(by) => (Status::Paused, Some(by)),
            Closing::End => (Status::Stopping, None),
        };
    }

    fn decide(&self, request: Request) -> Verdict {
        decide(self.status, self.activity(), request)
    }

    fn activity(&self) -> Activity {
        Activity { tools_in_flight: self.life.at_work(), busy: self.busy, files_kept: false }
    }
}

impl Life {
    fn begin(now_ms: u64) -> Self {
        Self {
            inside: AtomicU32::new(0),
            onlookers: AtomicU32::new(0),
            left: Notify::new(),
            used_ms: AtomicU64::new(now_ms),
            end: watch::Sender::new(None),
        }
    }

    fn come_in(&self, now_ms: u64) {
        self.inside.fetch_add(1, Ordering::Relaxed);
        self.used_ms.store(now_ms, Ordering::Relaxed);
    }

    pub(crate) fn go_out(&self, now_ms: u64) {
        self.used_ms.store(now_ms, Ordering::Relaxed);
        self.inside.fetch_sub(1, Ordering::Release);
        self.left.notify_waiters();
    }

    /// One of the callers inside only looks on from now on.
    pub(crate) fn step_aside(&self) {
        self.onlookers.fetch_add(1, Ordering::Release);
        self.left.notify_waiters();
    }

    /// A caller that looked on is about to leave.
    pub(crate) fn step_back(&self) {
        self.onlookers.fetch_sub(1, Ordering::Release);
    }

    /// The number of callers inside that do more than look on.
    pub(crate) fn at_work(&self) -> u32 {
        self.inside().saturating_sub(self.onlookers.load(Ordering::Acquire))
    }

    /// Waits until no more than this many are at work.
    pub(crate) async fn until_at_most(&self, few: u32) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.at_work() <= few {
                return;
            }
            left.await;
        }
    }

    pub(crate) fn inside(&self) -> u32 {
        self.inside.load(Ordering::Acquire)
    }

    pub(crate) fn used_ms(&self) -> u64 {
        self.used_ms.load(Ordering::Relaxed)
    }

    /// Ends open streams, which finish with this sentence.
    pub(crate) fn end(&self, detail: &str) {
        self.end.send_replace(Some(detail.into()));
    }

    /// How the life ended, if it has.
    pub(crate) fn ended(&self) -> Option<Arc<str>> {
        self.end.borrow().clone()
    }

    /// Waits for the end of the life.
    pub(crate) async fn until_end(&self) -> Arc<str> {
        let mut end = self.end.subscribe();
        match end.wait_for(Option::is_some).await {
            Ok(detail) => detail.clone().unwrap_or_default(),
            Err(_) => "its driver ended".into(),
        }
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        self.cell.gate.lock().busy = None;
        self.cell.moved.send_replace(());
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("id", &self.id).field("status", &self.status()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life").field("inside", &self.inside()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

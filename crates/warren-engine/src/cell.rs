//! What everybody may see of one sandbox: where it stands, who is inside, and the way to its driver.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};
use warren_core::{
    Activity, DenyReason, Isolation, Owner, PausedBy, Request, SandboxId, SandboxRecord, Status, Step,
    Verdict, decide,
};

use crate::certificate::Tail;
use crate::driver::Mail;

/// Letters to a driver that has not read the last ones yet; whoever writes more waits.
const MAILBOX: usize = 16;

/// A sandbox that has a driver.
pub(crate) struct Cell {
    pub(crate) id: SandboxId,
    pub(crate) owner: Owner,
    pub(crate) backend: Arc<dyn Isolation>,
    pub(crate) mail: mpsc::Sender<Mail>,
    pub(crate) tail: Mutex<Tail>,
    /// When the driver has something to look at, on the clock of the boot.
    pub(crate) due_ms: AtomicU64,
    record: watch::Sender<Arc<SandboxRecord>>,
    gate: Mutex<Gate>,
}

/// Decides who comes in. The driver alone changes it; a lock, so that nobody enters between the driver's look and its act.
struct Gate {
    status: Status,
    paused_by: Option<PausedBy>,
    life: Arc<Life>,
}

/// The time between one start of a sandbox and its end.
pub(crate) struct Life {
    inside: AtomicU32,
    /// When somebody last came in or went out.
    used_ms: AtomicU64,
    /// What open streams are told at the end.
    end: watch::Sender<Option<Arc<str>>>,
}

/// The answer to one who wants to come in.
#[derive(Debug)]
pub(crate) enum Leave {
    Granted(Arc<Life>),
    /// It paused for want of work, and here is some: the driver has to thaw it first.
    ThawFirst,
    /// Its files are still being brought up to date.
    Wait,
    Denied(Status, DenyReason),
}

impl Cell {
    pub(crate) fn new(
        record: SandboxRecord,
        backend: Arc<dyn Isolation>,
        now_ms: u64,
    ) -> (Arc<Self>, mpsc::Receiver<Mail>) {
        let (mail, mailbox) = mpsc::channel(MAILBOX);
        let gate = Gate {
            status: record.status,
            paused_by: record.paused.as_ref().map(|paused| paused.by),
            life: Arc::new(Life::begin(now_ms)),
        };
        let cell = Self {
            id: record.id.clone(),
            owner: record.owner.clone(),
            backend,
            mail,
            tail: Mutex::default(),
            due_ms: AtomicU64::new(u64::MAX),
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

    pub(crate) fn publish(&self, record: &SandboxRecord) {
        self.record.send_replace(Arc::new(record.clone()));
    }

    pub(crate) fn status(&self) -> Status {
        self.gate().status
    }

    /// Lets somebody in, if that may be now.
    pub(crate) fn ask_leave(&self, request: Request, now_ms: u64) -> Leave {
        let gate = self.gate();
        match decide(gate.status, gate.activity(), request) {
            Verdict::Proceed(Step::WaitForSync) => Leave::Wait,
            Verdict::Proceed(Step::Serve | Step::Enter(_)) | Verdict::AlreadySo => {
                gate.life.come_in(now_ms);
                Leave::Granted(Arc::clone(&gate.life))
            }
            Verdict::Denied(DenyReason::Paused) if gate.paused_by == Some(PausedBy::Idleness) => {
                Leave::ThawFirst
            }
            Verdict::Denied(reason) => Leave::Denied(gate.status, reason),
        }
    }

    /// Sets where the sandbox stands, for those who want to come in.
    pub(crate) fn set_gate(&self, status: Status, paused_by: Option<PausedBy>) {
        let mut gate = self.gate();
        gate.status = status;
        gate.paused_by = paused_by;
    }

    /// Closes the gate for want of work; says no if somebody is inside or came by since `idle_since_ms`.
    pub(crate) fn close_if_unused(&self, idle_since_ms: u64) -> bool {
        let mut gate = self.gate();
        let unused = gate.life.inside() == 0 && gate.life.used_ms() <= idle_since_ms;
        if unused {
            gate.status = Status::Paused;
            gate.paused_by = Some(PausedBy::Idleness);
        }
        unused
    }

    pub(crate) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.gate().life)
    }

    /// Another life begins: whoever was inside the last one has nothing to do with it.
    pub(crate) fn begin_life(&self, now_ms: u64) {
        self.gate().life = Arc::new(Life::begin(now_ms));
    }

    pub(crate) fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    fn activity(&self) -> Activity {
        Activity { tools_in_flight: self.life.inside(), ..Activity::default() }
    }
}

impl Life {
    fn begin(now_ms: u64) -> Self {
        Self { inside: AtomicU32::new(0), used_ms: AtomicU64::new(now_ms), end: watch::Sender::new(None) }
    }

    fn come_in(&self, now_ms: u64) {
        self.inside.fetch_add(1, Ordering::Relaxed);
        self.used_ms.store(now_ms, Ordering::Relaxed);
    }

    pub(crate) fn go_out(&self, now_ms: u64) {
        self.used_ms.store(now_ms, Ordering::Relaxed);
        self.inside.fetch_sub(1, Ordering::Release);
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
mod tests {
    use warren_testkit::{FakeIsolation, sample_sandbox};

    use super::*;

    fn cell(status: Status) -> Arc<Cell> {
        let record = SandboxRecord { status, ..sample_sandbox(&Owner::first(), 1) };
        Cell::new(record, FakeIsolation::new(), 100).0
    }

    #[test]
    fn who_is_inside_keeps_the_sandbox_from_resting() {
        let cell = cell(Status::Ready);
        let Leave::Granted(life) = cell.ask_leave(Request::Execute, 200) else { panic!("it is ready") };
        assert!(!cell.close_if_unused(1000));
        life.go_out(300);
        assert!(!cell.close_if_unused(299), "somebody came by after that");
        assert!(cell.close_if_unused(300));
        assert!(matches!(cell.ask_leave(Request::Execute, 400), Leave::ThawFirst));
    }

    #[test]
    fn a_sandbox_that_was_told_to_pause_is_not_thawed_by_work() {
        let cell = cell(Status::Ready);
        cell.set_gate(Status::Paused, Some(PausedBy::Request));
        let leave = cell.ask_leave(Request::ReadFiles, 200);
        assert!(matches!(leave, Leave::Denied(Status::Paused, DenyReason::Paused)), "{leave:?}");
    }

    #[tokio::test]
    async fn who_was_inside_an_earlier_life_has_no_part_in_the_next() {
        let cell = cell(Status::Ready);
        let Leave::Granted(earlier) = cell.ask_leave(Request::Execute, 200) else { panic!("it is ready") };
        earlier.end("it was stopped");
        cell.begin_life(300);
        assert_eq!(&*earlier.until_end().await, "it was stopped");
        earlier.go_out(400);
        assert_eq!((cell.life().inside(), cell.life().ended()), (0, None));
    }
}

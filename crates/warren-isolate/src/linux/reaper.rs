//! Removing the remains of destroyed sandboxes in the background.
//!
//! A few threads share one queue: a tree of a million files holds up only one of them. The order
//! makes reuse safe: first the processes, then the group, then the files, and only then is the id
//! range free. If a step cannot be done yet, the sandbox goes back into the queue for a moment.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::PidfdFlags;
use warren_core::{Limits, SandboxId};

use super::data::Lock;
use super::record::Record;
use super::starts::Starts;
use super::step::CrashPoint;
use super::sys::{self, Child};
use super::{Backend, reclaim, remove};

/// Hands remains to the threads. A drop waits until they have finished what is queued.
#[derive(Debug)]
pub(super) struct Reaper {
    queue: Arc<Queue>,
}

#[derive(Debug)]
struct Queue {
    backend: Arc<Backend>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Remains>,
    /// Remains being worked on, and the search for orphans while it runs.
    busy: usize,
    /// Threads that wait for remains.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

/// A destroyed sandbox, with the lock that keeps other processes from removing it too.
#[derive(Debug)]
pub(super) struct Remains {
    id: SandboxId,
    _lock: Lock,
    /// The sandbox's first process, if it is this process's child.
    child: Option<Child>,
    since: Instant,
    not_before: Instant,
    attempts: u32,
}

impl Remains {
    pub(super) fn id(&self) -> &SandboxId {
        &self.id
    }

    pub(super) fn new(id: SandboxId, lock: Lock, child: Option<Child>) -> Self {
        let now = Instant::now();
        Self { id, _lock: lock, child, since: now, not_before: now, attempts: 0 }
    }
}

/// More than one, so that large sandboxes seldom hold up the removal of others. One is there from
/// the start, and the others once they have something to do.
const THREADS: usize = 4;
/// Removals run at low priority, as nobody waits for them.
const NICE: i32 = 10;
/// Removal waits while sandboxes are made, but not if more than this many wait, or one this long.
const MOST_POSTPONED: usize = 32;
const LONGEST_POSTPONED: Duration = Duration::from_millis(500);
/// The pause before a look whether sandboxes are still being made.
const POSTPONED: Duration = Duration::from_millis(5);
/// After this many attempts, about a minute, the remains are left to the next start.
const MOST_ATTEMPTS: u32 = 200;
/// After this many, about a second, a process that is ending gives up.
const LAST_ATTEMPTS: u32 = 30;

impl Reaper {
    /// Starts the first thread, which begins with a search for orphans.
    pub(super) fn start(backend: Arc<Backend>) -> io::Result<Self> {
        let state = State { busy: 1, ..State::default() };
        let queue = Arc::new(Queue { backend, state: Mutex::new(state), changed: Condvar::new() });
        let first = Arc::clone(&queue);
        let thread = thread(move || {
            // The first create needs it, and its caller has other things to do meanwhile.
            first.backend.machines.prepare(Limits::default().cpus);
            step_back();
            first.find();
            first.work();
        })?;
        queue.state.lock().threads.push(thread);
        Ok(Self { queue })
    }

    pub(super) fn take(&self, remains: Remains) {
        self.queue.add([remains]);
    }

    pub(super) fn settle(&self, patience: Duration) -> bool {
        let idle = |state: &mut State| state.busy > 0 || !state.waiting.is_empty();
        !self.queue.changed.wait_while_for(&mut self.queue.state.lock(), idle, patience).timed_out()
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.changed.notify_all();
        // Whoever waits for the work does a part of it.
        self.queue.work();
        loop {
            let Some(thread) = self.queue.state.lock().threads.pop() else { break };
            drop(thread.join());
        }
    }
}

fn thread(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name("warren-reaper".to_owned()).spawn(work)
}

/// Lets everybody else come first. A machine that refuses this still works.
fn step_back() {
    let _ignored = rustix::process::setpriority_process(None, NICE);
}

impl Queue {
    fn find(self: &Arc<Self>) {
        let orphans = reclaim::orphans(&self.backend);
        self.add(orphans);
        self.state.lock().busy -= 1;
        self.changed.notify_all();
    }

    fn add(self: &Arc<Self>, remains: impl IntoIterator<Item = Remains>) {
        let mut state = self.state.lock();
        state.waiting.extend(remains);
        let wanted = state.waiting.len().saturating_sub(state.idle);
        for _ in 0..wanted.min(THREADS.saturating_sub(state.threads.len())) {
            let another = Arc::clone(self);
            // Without it the others do the work.
            state.threads.extend(thread(move || {
                step_back();
                another.work();
            }));
        }
        drop(state);
        self.changed.notify_all();
    }

    fn work(&self) {
        while let Some(mut remains) = self.next(&self.backend.starts) {
            let gone = dispose(&self.backend, &mut remains);
            let mut state = self.state.lock();
            state.busy -= 1;
            remains.attempts += 1;
            let most = if state.closed { LAST_ATTEMPTS } else { MOST_ATTEMPTS };
            if !gone && remains.attempts < most {
                remains.not_before = Instant::now() + retry_delay(remains.attempts);
                state.waiting.push_back(remains);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for the next remains that are due. `None`: the queue is closed and empty.
    fn next(&self, starts: &Starts) -> Option<Remains> {
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            let at_once = state.closed || state.waiting.len() > MOST_POSTPONED || !starts.any();
            let due = state.waiting.iter().position(|remains| {
                remains.not_before <= now && (at_once || now - remains.since > LONGEST_POSTPONED)
            });
            if let Some(remains) = due.and_then(|index| state.waiting.remove(index)) {
                state.busy += 1;
                return Some(remains);
            }
            // A thread that puts remains back goes on with them itself.
            if state.closed && state.waiting.is_empty() {
                return None;
            }
            let soonest = state.waiting.iter().map(|remains| remains.not_before - now).min();
            let soonest = soonest.map(|pause| if at_once { pause } else { pause.max(POSTPONED) });
            let pause = soonest.unwrap_or(Duration::from_secs(3600));
            state.idle += 1;
            self.changed.wait_for(&mut state, pause);
            state.idle -= 1;
        }
    }
}

/// The first attempts come quickly: a killed sandbox is usually gone within a few milliseconds.
fn retry_delay(attempts: u32) -> Duration {
    Duration::from_millis(u64::from(attempts).min(300))
}

/// Removes the remains as far as possible. Returns whether nothing is left.
fn dispose(backend: &Backend, remains: &mut Remains) -> bool {
    let name = remains.id.as_str();
    drop(backend.cgroups.kill(name));
    let reaped = remains.child.take_if(|child| has_ended(child)).is_some();
    // The first process takes all others along.
    let others = || backend.cgroups.processes(name).is_ok_and(|left| !left.is_empty());
    if remains.child.is_some() || !reaped && others() {
        return false;
    }
    backend.passed(CrashPoint::ReapProcesses);
    if !backend.cgroups.remove(name) {
        return false;
    }
    backend.passed(CrashPoint::ReapCgroup);
    let trash = backend.data.trash(&remains.id);
    let record = Record::load(&trash);
    let quota = record.as_ref().map(|record| record.quota);
    backend.quotas.lift(&trash, quota);
    remove::remove_tree(&trash, || {
        backend.passed(CrashPoint::ReapFiles);
        // The claim goes before the directory, so a claim without a directory never exists.
        backend.quotas.release(&remains.id, quota);
        backend.data.ranges().release(record.as_ref().map(|record| record.id_base), &remains.id);
        backend.passed(CrashPoint::ReapRange);
    })
}

/// Reaps a process that has been killed, after waiting a moment for its end if need be.
pub(super) fn has_ended(child: &Child) -> bool {
    let wait = || -> Option<()> {
        let process = rustix::process::pidfd_open(child.number()?, PidfdFlags::empty()).ok()?;
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        let patience = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        rustix::event::poll(&mut ended, Some(&patience)).ok().map(drop)
    };
    sys::reap_if_ended(child) || (wait().is_some() && sys::reap_if_ended(child))
}

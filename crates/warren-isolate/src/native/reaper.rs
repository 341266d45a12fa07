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
use warren_core::SandboxId;

use super::data::Lock;
use super::record::Record;
use super::step::CrashPoint;
use super::sys::{self, Child};
use super::{Backend, reclaim, remove};

/// Hands remains to the threads. A drop waits until they have finished what is queued.
#[derive(Debug)]
pub(super) struct Reaper {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Remains>,
    /// Remains being worked on, and the search for orphans while it runs.
    busy: usize,
    closed: bool,
}

/// A destroyed sandbox, with the lock that keeps other processes from removing it too.
#[derive(Debug)]
pub(super) struct Remains {
    id: SandboxId,
    _lock: Lock,
    /// The sandbox's first process, if it is this process's child.
    child: Option<Child>,
    not_before: Instant,
    attempts: u32,
}

impl Remains {
    pub(super) fn id(&self) -> &SandboxId {
        &self.id
    }

    pub(super) fn new(id: SandboxId, lock: Lock, child: Option<Child>) -> Self {
        Self { id, _lock: lock, child, not_before: Instant::now(), attempts: 0 }
    }
}

/// More than one, so that large sandboxes seldom hold up the removal of others.
const THREADS: usize = 4;
/// Removals run at low priority, as nobody waits for them.
const NICE: i32 = 10;
/// After this many attempts, about a minute, the remains are left to the next start.
const MOST_ATTEMPTS: u32 = 200;
/// After this many, about a second, a process that is ending gives up.
const LAST_ATTEMPTS: u32 = 30;

impl Reaper {
    /// Starts the threads. The first one begins with a search for orphans.
    pub(super) fn start(backend: Arc<Backend>) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        queue.state.lock().busy = 1;
        let mut reaper = Self { queue: Arc::clone(&queue), threads: Vec::new() };
        for number in 0..THREADS {
            let (worker, backend) = (Arc::clone(&queue), Arc::clone(&backend));
            let work = move || {
                // A machine that refuses this still works.
                let _ignored = rustix::process::setpriority_process(None, NICE);
                if number == 0 {
                    worker.find(&backend);
                }
                worker.work(&backend);
            };
            reaper.threads.push(Builder::new().name("warren-reaper".to_owned()).spawn(work)?);
        }
        Ok(reaper)
    }

    pub(super) fn take(&self, remains: Remains) {
        self.queue.state.lock().waiting.push_back(remains);
        self.queue.changed.notify_all();
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
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Queue {
    fn find(&self, backend: &Backend) {
        let orphans = reclaim::orphans(backend);
        let mut state = self.state.lock();
        state.busy -= 1;
        state.waiting.extend(orphans);
        drop(state);
        self.changed.notify_all();
    }

    fn work(&self, backend: &Backend) {
        while let Some(mut remains) = self.next() {
            let gone = dispose(backend, &mut remains);
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
    fn next(&self) -> Option<Remains> {
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            let due = state.waiting.iter().position(|remains| remains.not_before <= now);
            if let Some(remains) = due.and_then(|index| state.waiting.remove(index)) {
                state.busy += 1;
                return Some(remains);
            }
            // A thread that puts remains back goes on with them itself.
            if state.closed && state.waiting.is_empty() {
                return None;
            }
            let soonest = state.waiting.iter().map(|remains| remains.not_before - now).min();
            let pause = soonest.unwrap_or(Duration::from_secs(3600));
            self.changed.wait_for(&mut state, pause);
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
    remains.child.take_if(|child| has_ended(child));
    if remains.child.is_some() || backend.cgroups.processes(name).is_ok_and(|left| !left.is_empty()) {
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

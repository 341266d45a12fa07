//! All processes the agent knows: running ones, and finished ones for as long as somebody may still
//! ask.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use warren_wire::guest::{Failure, FailureCode, ProcessId, ProcessSelector};

use crate::failure::refuse;
use crate::process::{CAPACITY, Process};

/// Finished processes are forgotten after this time.
const RETENTION: Duration = Duration::from_secs(60);
const MAX_FINISHED: usize = 256;
const MAX_RUNNING: usize = 4096;
/// The most bytes of all rings and argument lists together.
const MAX_WEIGHT: usize = 32 * 1024 * 1024;
/// Every ring may be this large, however many there are.
const LEAST_RING: usize = 4 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Processes {
    all: BTreeMap<u64, Process>,
    /// By pid, those that have not been reaped: only these may be signalled.
    running: BTreeMap<i32, u64>,
    /// In the order they ended.
    finished: VecDeque<(Instant, u64)>,
    weight: usize,
    last_id: u64,
}

impl Processes {
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Refuses when there is no place for one more.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<(), Failure> {
        self.sweep(now, CAPACITY);
        if self.running.len() >= MAX_RUNNING || self.weight >= MAX_WEIGHT {
            return Err(refuse(FailureCode::Exhausted, "start a process: the agent keeps too many already"));
        }
        Ok(())
    }

    pub(crate) fn insert(&mut self, process: Process) {
        self.weight += process.weight();
        self.running.insert(process.pid, process.id);
        self.all.insert(process.id, process);
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Process> {
        self.all.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Process> {
        self.all.get_mut(&id)
    }

    pub(crate) fn from(&self, id: u64) -> impl Iterator<Item = &Process> {
        self.all.range(id..).map(|(_, process)| process)
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (i32, u64)> {
        self.running.iter().map(|(pid, id)| (*pid, *id))
    }

    /// The process a call is about.
    pub(crate) fn find(&self, selector: &ProcessSelector) -> Result<u64, Failure> {
        let newest = |matches: &dyn Fn(&Process) -> bool| {
            self.all.values().rev().find(|process| matches(process)).map(|process| process.id)
        };
        let (found, name) = match selector {
            ProcessSelector::Id(ProcessId(id)) => {
                (self.all.get(id).map(|process| process.id), id.to_string())
            }
            ProcessSelector::Pid(pid) => (
                i32::try_from(*pid).ok().and_then(|pid| {
                    self.running.get(&pid).copied().or_else(|| newest(&|each| each.pid == pid))
                }),
                format!("with pid {pid}"),
            ),
            ProcessSelector::Tag(tag) => {
                (newest(&|each| each.tag.as_ref() == Some(tag)), format!("with tag `{}`", tag.to_text()))
            }
        };
        found.ok_or_else(|| refuse(FailureCode::NotFound, format!("there is no process {name}")))
    }

    /// As [`Processes::find`], for calls that make sense only while the process runs.
    pub(crate) fn find_running(&mut self, selector: &ProcessSelector) -> Result<&mut Process, Failure> {
        let id = self.find(selector)?;
        self.all
            .get_mut(&id)
            .filter(|process| process.exit.is_none())
            .ok_or_else(|| refuse(FailureCode::Ended, format!("process {id} has ended")))
    }

    /// Does something that may change what a process weighs.
    pub(crate) fn with<T>(&mut self, id: u64, act: impl FnOnce(&mut Process) -> T) -> Option<T> {
        let process = self.all.get_mut(&id)?;
        let before = process.weight();
        let result = act(process);
        self.weight = (self.weight + process.weight()).saturating_sub(before);
        Some(result)
    }

    /// Decides how large a ring may be now, forgetting finished processes first when memory is
    /// short.
    pub(crate) fn set_limit(&mut self, id: u64, now: Instant) {
        if self.weight.saturating_add(CAPACITY) > MAX_WEIGHT {
            self.sweep(now, CAPACITY);
        }
        let spare = MAX_WEIGHT.saturating_sub(self.weight);
        if let Some(process) = self.all.get_mut(&id) {
            process.limit = spare.saturating_add(process.ring.allocated()).clamp(LEAST_RING, CAPACITY);
        }
    }

    /// Takes note that a pid is reaped, and says whose it was.
    pub(crate) fn reaped(&mut self, pid: i32) -> Option<u64> {
        self.running.remove(&pid)
    }

    pub(crate) fn finished(&mut self, id: u64, now: Instant) {
        self.finished.push_back((now, id));
        self.sweep(now, 0);
    }

    /// Forgets finished processes that nobody reads: those whose time is over, and the oldest
    /// beyond what is kept or while `needed` bytes are not free. Returns when to look again.
    pub(crate) fn sweep(&mut self, now: Instant, needed: usize) -> Option<Instant> {
        let mut excess = self.finished.len().saturating_sub(MAX_FINISHED);
        let mut index = 0;
        while let Some((at, id)) = self.finished.get(index).copied() {
            let short = self.weight.saturating_add(needed) > MAX_WEIGHT;
            let over = now.saturating_duration_since(at) >= RETENTION;
            if !(over || excess > 0 || short) {
                break;
            }
            if self.all.get(&id).is_some_and(Process::is_followed) {
                index += 1;
                continue;
            }
            self.finished.remove(index);
            excess = excess.saturating_sub(1);
            if let Some(process) = self.all.remove(&id) {
                self.weight = self.weight.saturating_sub(process.weight());
            }
        }
        let (oldest, _) = self.finished.front()?;
        Some((*oldest + RETENTION).max(now + Duration::from_secs(1)))
    }

    /// Output bytes held.
    pub(crate) fn ring_bytes(&self) -> u64 {
        self.all.values().map(|process| process.ring.len() as u64).sum()
    }
}

//! Builds that go on, or ended a short while ago, and what they have to tell.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use warren_core::ErrorCode;
use warren_core::{Clock, Owner};
use warren_e2b::rest::templates::{BuildLogEntry, LogLevel};

use crate::convert::rfc3339;
use crate::e2b::control::E2bError;

/// Builds at once, all owners together. Others wait.
const AT_ONCE: usize = 4;
/// Builds of one owner that go on or wait.
const MOST_OF_OWNER: usize = 16;
/// Builds that ended whose logs are kept.
const MOST_ENDED: usize = 64;
/// What is kept of one build's log.
const MOST_LINES: usize = 20_000;
const LONGEST_LINE: usize = 2000;

/// All of them.
#[derive(Debug)]
pub(crate) struct Jobs {
    known: Mutex<Known>,
    room: Semaphore,
}

#[derive(Debug, Default)]
struct Known {
    /// By owner and build.
    jobs: HashMap<(Owner, String), Arc<Job>>,
    /// The one that ended first comes first.
    ended: VecDeque<(Owner, String)>,
}

/// One build.
pub(super) struct Job {
    state: Mutex<JobState>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("running", &self.is_running()).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct JobState {
    running: bool,
    /// How many lines are gone at the beginning.
    gone: usize,
    lines: VecDeque<Line>,
}

#[derive(Debug, Clone)]
struct Line {
    unix_ms: u64,
    level: LogLevel,
    step: String,
    message: String,
}

/// Which lines of a log are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) offset: usize,
    pub(super) limit: usize,
    pub(super) least: LogLevel,
}

impl Default for Jobs {
    fn default() -> Self {
        Self { known: Mutex::default(), room: Semaphore::new(AT_ONCE) }
    }
}

impl Jobs {
    /// A new build. It is known until a good while after its end.
    pub(super) fn open(
        &self,
        owner: &Owner,
        build: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Job>, E2bError> {
        let mut known = locked(&self.known);
        let key = (owner.clone(), build.to_owned());
        if known.jobs.contains_key(&key) {
            return Err(E2bError::conflict(format!("the build {build} has begun already")));
        }
        let active = known.jobs.keys().filter(|key| key.0 == *owner && !known.ended.contains(key)).count();
        if active >= MOST_OF_OWNER {
            let message =
                format!("{MOST_OF_OWNER} builds of yours go on or wait already: wait for one of them");
            return Err(E2bError::new(ErrorCode::MaxBuilds, message));
        }
        let job = Arc::new(Job { state: Mutex::default(), clock });
        known.jobs.insert(key, Arc::clone(&job));
        Ok(job)
    }

    pub(super) fn find(&self, owner: &Owner, build: &str) -> Option<Arc<Job>> {
        locked(&self.known).jobs.get(&(owner.clone(), build.to_owned())).cloned()
    }

    /// One that did not begin after all.
    pub(super) fn forget(&self, owner: &Owner, build: &str) {
        locked(&self.known).jobs.remove(&(owner.clone(), build.to_owned()));
    }

    /// Waits for room.
    pub(super) async fn room(&self) -> Option<SemaphorePermit<'_>> {
        self.room.acquire().await.ok()
    }

    /// A build is over.
    pub(super) fn close(&self, owner: &Owner, build: &str) {
        let mut known = locked(&self.known);
        known.ended.push_back((owner.clone(), build.to_owned()));
        while known.ended.len() > MOST_ENDED {
            if let Some(key) = known.ended.pop_front() {
                known.jobs.remove(&key);
            }
        }
    }
}

impl Job {
    /// It has room, and begins.
    pub(super) fn begin(&self) {
        locked(&self.state).running = true;
    }

    pub(super) fn is_running(&self) -> bool {
        locked(&self.state).running
    }

    /// Adds to the log. Each line is an entry of its own.
    pub(super) fn log(&self, level: LogLevel, step: &str, text: &str) {
        let unix_ms = self.clock.unix_ms();
        let mut state = locked(&self.state);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let message = line.chars().take(LONGEST_LINE).collect();
            state.lines.push_back(Line { unix_ms, level, step: step.to_owned(), message });
        }
        while state.lines.len() > MOST_LINES {
            state.lines.pop_front();
            state.gone += 1;
        }
    }

    pub(super) fn lines(&self, wanted: Wanted) -> Vec<BuildLogEntry> {
        let state = locked(&self.state);
        let lines = state.lines.iter().filter(|line| line.level >= wanted.least);
        // Those that are gone were either read or will never be.
        let skipped = wanted.offset.saturating_sub(state.gone);
        lines.skip(skipped).take(wanted.limit).map(Line::entry).collect()
    }
}

impl Line {
    fn entry(&self) -> BuildLogEntry {
        BuildLogEntry {
            timestamp: rfc3339(self.unix_ms),
            message: self.message.clone(),
            level: self.level,
            step: Some(self.step.clone()).filter(|step| !step.is_empty()),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use warren_testkit::FakeClock;

    use super::*;

    fn open(jobs: &Jobs, build: &str) -> Result<Arc<Job>, E2bError> {
        jobs.open(&Owner::first(), build, Arc::new(FakeClock::new()))
    }

    fn messages(job: &Job, offset: usize, limit: usize, least: LogLevel) -> Vec<String> {
        job.lines(Wanted { offset, limit, least }).into_iter().map(|entry| entry.message).collect()
    }

    #[test]
    fn a_log_is_read_in_parts_and_by_importance() {
        let job = open(&Jobs::default(), "a").unwrap();
        job.log(LogLevel::Info, "1", "one\ntwo\n\n");
        job.log(LogLevel::Error, "1", "three");
        assert_eq!(messages(&job, 0, 100, LogLevel::Debug), ["one", "two", "three"]);
        assert_eq!(messages(&job, 1, 1, LogLevel::Debug), ["two"]);
        assert_eq!(messages(&job, 0, 9, LogLevel::Warn), ["three"]);
        assert!(messages(&job, 3, 9, LogLevel::Debug).is_empty());
    }

    #[test]
    fn a_long_log_loses_its_beginning_and_keeps_its_numbers() {
        let job = open(&Jobs::default(), "a").unwrap();
        for number in 0..MOST_LINES + 5 {
            job.log(LogLevel::Info, "", &number.to_string());
        }
        assert_eq!(messages(&job, 0, 1, LogLevel::Debug), ["5"]);
        assert_eq!(messages(&job, 7, 1, LogLevel::Debug), ["7"]);
        assert!(messages(&job, MOST_LINES + 5, 1, LogLevel::Debug).is_empty());
    }

    #[test]
    fn one_owner_has_not_endlessly_many() {
        let jobs = Jobs::default();
        for number in 0..MOST_OF_OWNER {
            open(&jobs, &number.to_string()).unwrap();
        }
        assert_eq!(open(&jobs, "more").unwrap_err().status().as_u16(), 429);
        jobs.close(&Owner::first(), "0");
        open(&jobs, "more").unwrap();
        assert_eq!(open(&jobs, "more").unwrap_err().status().as_u16(), 409);
        jobs.forget(&Owner::first(), "more");
        open(&jobs, "more").unwrap();
        assert!(jobs.find(&Owner::first(), "0").is_some(), "its log can still be read");
    }
}

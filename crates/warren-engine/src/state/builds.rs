//! Builds that go on or ended a short while ago, and their logs.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use warren_core::{BuildId, Clock, ImageDenied, ImageId, ImageRecord, Owner};

use crate::error::ImageError;

/// Builds at once, all owners together. Others wait.
const AT_ONCE: usize = 4;
/// The most builds of one owner that go on or wait.
const MOST_OF_OWNER: usize = 16;
/// The most builds that ended whose logs are kept.
const MOST_ENDED: usize = 64;
/// The most lines that are kept of one build's log.
const MOST_LINES: usize = 20_000;
const LONGEST_LINE: usize = 2000;

/// All builds of this process.
#[derive(Debug)]
pub(crate) struct Builds {
    known: Mutex<Known>,
    room: Semaphore,
    /// How often images were used since the process began, and when last.
    uses: Mutex<HashMap<(Owner, ImageId), (u64, u64)>>,
}

#[derive(Debug, Default)]
struct Known {
    logs: HashMap<(Owner, BuildId), Arc<BuildLog>>,
    /// The one that ended first comes first.
    ended: VecDeque<(Owner, BuildId)>,
}

/// The log of one build, line by line.
pub struct BuildLog {
    lines: Mutex<Lines>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct Lines {
    running: bool,
    /// How many lines are gone at the beginning.
    gone: usize,
    lines: VecDeque<LogLine>,
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    pub at_unix_ms: u64,
    pub level: LogLevel,
    /// `base`, the number of a step, `finalize`, or empty.
    pub step: String,
    pub message: String,
}

/// How important a line is, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// Which lines of a log are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedLines {
    pub offset: usize,
    pub limit: usize,
    pub least: LogLevel,
}

impl Default for Builds {
    fn default() -> Self {
        Self { known: Mutex::default(), room: Semaphore::new(AT_ONCE), uses: Mutex::default() }
    }
}

impl Builds {
    /// A new build. It is known until a good while after its end.
    pub(crate) fn open(
        &self,
        owner: &Owner,
        build: &BuildId,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<BuildLog>, ImageError> {
        let mut known = self.known.lock();
        let key = (owner.clone(), build.clone());
        if known.logs.contains_key(&key) {
            let denied = ImageDenied::Begun { build: build.clone() };
            return Err(ImageError::Denied { name: build.to_string(), denied });
        }
        let active = known.logs.keys().filter(|key| key.0 == *owner && !known.ended.contains(key)).count();
        if active >= MOST_OF_OWNER {
            return Err(ImageError::TooManyBuilds { most: MOST_OF_OWNER });
        }
        let log = Arc::new(BuildLog { lines: Mutex::default(), clock });
        known.logs.insert(key, Arc::clone(&log));
        Ok(log)
    }

    pub(crate) fn find(&self, owner: &Owner, build: &BuildId) -> Option<Arc<BuildLog>> {
        self.known.lock().logs.get(&(owner.clone(), build.clone())).cloned()
    }

    /// Forgets a build that did not begin after all.
    pub(crate) fn forget(&self, owner: &Owner, build: &BuildId) {
        self.known.lock().logs.remove(&(owner.clone(), build.clone()));
    }

    /// Waits for room.
    pub(crate) async fn room(&self) -> Option<SemaphorePermit<'_>> {
        self.room.acquire().await.ok()
    }

    /// A build is over.
    pub(crate) fn close(&self, owner: &Owner, build: &BuildId) {
        let mut known = self.known.lock();
        known.ended.push_back((owner.clone(), build.clone()));
        while known.ended.len() > MOST_ENDED {
            if let Some(key) = known.ended.pop_front() {
                known.logs.remove(&key);
            }
        }
    }

    pub(crate) fn count_use(&self, image: &ImageRecord, now: u64) {
        let mut uses = self.uses.lock();
        let count = uses.entry((image.owner.clone(), image.id.clone())).or_default();
        *count = (count.0 + 1, now);
    }

    pub(crate) fn uses_of(&self, image: &ImageRecord) -> (u64, Option<u64>) {
        match self.uses.lock().get(&(image.owner.clone(), image.id.clone())) {
            Some((count, last)) => (*count, Some(*last)),
            None => (0, None),
        }
    }
}

impl BuildLog {
    /// The build has room, and begins.
    pub(crate) fn begin(&self) {
        self.lines.lock().running = true;
    }

    /// True once the build no longer waits for room.
    pub fn is_running(&self) -> bool {
        self.lines.lock().running
    }

    /// Adds to the log. Each line is an entry of its own.
    pub(crate) fn add(&self, level: LogLevel, step: &str, text: &str) {
        let at_unix_ms = self.clock.unix_ms();
        let mut log = self.lines.lock();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let message = line.chars().take(LONGEST_LINE).collect();
            log.lines.push_back(LogLine { at_unix_ms, level, step: step.to_owned(), message });
        }
        while log.lines.len() > MOST_LINES {
            log.lines.pop_front();
            log.gone += 1;
        }
    }

    pub fn lines(&self, wanted: WantedLines) -> Vec<LogLine> {
        let log = self.lines.lock();
        let lines = log.lines.iter().filter(|line| line.level >= wanted.least);
        // Those that are gone were either read or will never be.
        let skipped = wanted.offset.saturating_sub(log.gone);
        lines.skip(skipped).take(wanted.limit).cloned().collect()
    }
}

impl fmt::Debug for BuildLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuildLog").field("running", &self.is_running()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use warren_testkit::FakeClock;

    use super::*;

    fn id(number: usize) -> BuildId {
        BuildId::from_random((number as u128).to_be_bytes())
    }

    fn open(builds: &Builds, number: usize) -> Result<Arc<BuildLog>, ImageError> {
        builds.open(&Owner::first(), &id(number), Arc::new(FakeClock::new()))
    }

    fn messages(log: &BuildLog, offset: usize, limit: usize, least: LogLevel) -> Vec<String> {
        log.lines(WantedLines { offset, limit, least }).into_iter().map(|line| line.message).collect()
    }

    #[test]
    fn a_log_is_read_in_parts_and_by_importance() {
        let log = open(&Builds::default(), 1).unwrap();
        log.add(LogLevel::Info, "1", "one\ntwo\n\n");
        log.add(LogLevel::Error, "1", "three");
        assert_eq!(messages(&log, 0, 100, LogLevel::Debug), ["one", "two", "three"]);
        assert_eq!(messages(&log, 1, 1, LogLevel::Debug), ["two"]);
        assert_eq!(messages(&log, 0, 9, LogLevel::Warn), ["three"]);
        assert!(messages(&log, 3, 9, LogLevel::Debug).is_empty());
    }

    #[test]
    fn a_long_log_loses_its_beginning_and_keeps_its_numbers() {
        let log = open(&Builds::default(), 1).unwrap();
        for number in 0..MOST_LINES + 5 {
            log.add(LogLevel::Info, "", &number.to_string());
        }
        assert_eq!(messages(&log, 0, 1, LogLevel::Debug), ["5"]);
        assert_eq!(messages(&log, 7, 1, LogLevel::Debug), ["7"]);
        assert!(messages(&log, MOST_LINES + 5, 1, LogLevel::Debug).is_empty());
    }

    #[test]
    fn one_owner_has_not_endlessly_many_builds() {
        let (builds, more) = (Builds::default(), MOST_OF_OWNER);
        for number in 0..MOST_OF_OWNER {
            open(&builds, number).unwrap();
        }
        assert!(matches!(open(&builds, more), Err(ImageError::TooManyBuilds { .. })));
        builds.close(&Owner::first(), &id(0));
        open(&builds, more).unwrap();
        assert!(matches!(open(&builds, more), Err(ImageError::Denied { .. })));
        builds.forget(&Owner::first(), &id(more));
        open(&builds, more).unwrap();
        assert!(builds.find(&Owner::first(), &id(0)).is_some(), "its log can still be read");
    }
}

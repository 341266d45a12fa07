use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A task that is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A connection has not sent its request, or its port has not answered.
    Silence { connection: u64 },
    /// A process has used up its time.
    Timeout { process: u64 },
    /// A broken reader's place is held no longer.
    Grace { process: u64 },
    /// Finished processes may be forgotten.
    Sweep,
    /// Accepting failed for want of descriptors and may work again.
    Accept,
    /// One that `sudo` sent has not said what it wants.
    Elevation { session: u64 },
    /// The figures of the sandbox's machine are due for renewal.
    Machine,
    /// Processes that were asked to end are waited for no longer, and end with the agent.
    Leave,
    /// The agent's socket may be made again.
    Door,
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, timer: Timer) {
        self.due.insert((at, timer));
    }

    pub(crate) fn cancel(&mut self, at: Instant, timer: Timer) {
        self.due.remove(&(at, timer));
    }

    /// How long to wait for the next one.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        self.due.first().map(|(at, _)| at.saturating_duration_since(now))
    }

    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let (at, timer) = *self.due.first()?;
        (at <= now).then(|| {
            self.due.pop_first();
            timer
        })
    }
}

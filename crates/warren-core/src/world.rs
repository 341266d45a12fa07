/// The time. Injected, so that tests can jump and nothing depends on a clock that an administrator
/// can set.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970, for people and for records. It may jump; no deadline is ever
    /// compared with it while the machine that set the deadline is up.
    fn unix_ms(&self) -> u64;

    /// Milliseconds since the machine was switched on, sleep included. Never goes back; deadlines
    /// are counted on it.
    fn boot_ms(&self) -> u64;

    /// Names the time since the machine was switched on: `boot_ms` of another boot means nothing.
    fn boot_id(&self) -> &str;
}

/// Where ids and secrets come from.
pub trait Random: Send + Sync {
    fn bits(&self) -> [u8; 16];
}

/// A moment after which something is due, which survives a restart of the process and jumps of the
/// wall clock.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Deadline {
    pub boot_id: String,
    pub boot_ms: u64,
    /// The same moment for people, and for the time after the machine was switched off.
    pub unix_ms: u64,
}

impl Deadline {
    pub fn after(clock: &dyn Clock, ms: u64) -> Self {
        Self {
            boot_id: clock.boot_id().to_owned(),
            boot_ms: clock.boot_ms().saturating_add(ms),
            unix_ms: clock.unix_ms().saturating_add(ms),
        }
    }

    /// Milliseconds until it is due; zero when it is.
    pub fn remaining_ms(&self, clock: &dyn Clock) -> u64 {
        if self.boot_id == clock.boot_id() {
            self.boot_ms.saturating_sub(clock.boot_ms())
        } else {
            self.unix_ms.saturating_sub(clock.unix_ms())
        }
    }

    pub fn is_due(&self, clock: &dyn Clock) -> bool {
        self.remaining_ms(clock) == 0
    }
}

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// When the client was last heard.
#[derive(Debug)]
pub(crate) struct Pulse(Mutex<Heard>);

#[derive(Debug, Clone, Copy)]
enum Heard {
    At(Instant),
    /// Nobody listens at the moment.
    Resting,
}

impl Default for Pulse {
    fn default() -> Self {
        Self(Mutex::new(Heard::At(Instant::now())))
    }
}

impl Pulse {
    /// The client was heard, and cannot be again until the guard is dropped.
    pub(crate) fn rest(&self) -> Rest<'_> {
        *self.lock() = Heard::Resting;
        Rest(self)
    }

    /// How long the client has not been heard although somebody listened.
    pub(crate) fn silence(&self) -> Duration {
        match *self.lock() {
            Heard::At(at) => at.elapsed(),
            Heard::Resting => Duration::ZERO,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock()
    }
}

/// See [`Pulse::rest`].
#[derive(Debug)]
pub(crate) struct Rest<'a>(&'a Pulse);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        *self.0.lock() = Heard::At(Instant::now());
    }
}

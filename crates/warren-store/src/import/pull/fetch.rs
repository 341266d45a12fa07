//! Fetches layers side by side, in the order in which they are needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warren_core::{ImageSource, RegistryError, RegistryErrorKind};

use super::arrival::Arrival;

/// Connections at once: enough that the registry's own pauses do not count.
pub(super) const AT_ONCE: usize = 3;
/// How often in a row a layer may fail without a byte of it arriving.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(50);

/// The layers that are not there yet.
#[derive(Debug)]
pub(super) struct Fetch {
    arrivals: Vec<Arc<Arrival>>,
    next: AtomicUsize,
    stopped: AtomicBool,
}

impl Fetch {
    pub(super) fn new(arrivals: Vec<Arc<Arrival>>) -> Self {
        Self { arrivals, next: AtomicUsize::new(0), stopped: AtomicBool::new(false) }
    }

    pub(super) fn workers(&self) -> usize {
        self.arrivals.len().min(AT_ONCE)
    }

    /// Nobody needs the rest.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Nothing that came is to be kept but what was found to be right.
    pub(super) fn discard(&self) {
        self.arrivals.iter().for_each(|arrival| arrival.discard());
    }

    /// Fetches one layer after the other until there are no more. Several threads do so.
    pub(super) fn work(&self, source: &dyn ImageSource) {
        let mut buffer = Vec::new();
        while let Some(arrival) = self.arrivals.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = self.fetch(source, arrival, &mut buffer);
            arrival.end(outcome.err());
        }
    }

    fn fetch(
        &self,
        source: &dyn ImageSource,
        arrival: &Arrival,
        buffer: &mut Vec<u8>,
    ) -> Result<(), RegistryError> {
        let (mut failures, mut pause) = (0, FIRST_PAUSE);
        while arrival.arrived() < arrival.size && !self.is_stopped() {
            let before = arrival.arrived();
            let outcome = source
                .blob(arrival.digest.as_str(), before)
                .and_then(|reader| arrival.take(reader, buffer, || self.is_stopped()));
            if arrival.arrived() > before {
                (failures, pause) = (0, FIRST_PAUSE);
            }
            failures += 1;
            match outcome {
                Err(error) if error.kind != RegistryErrorKind::Unreachable || failures >= TRIES => {
                    return Err(error);
                }
                Ok(()) if failures >= TRIES => {
                    let action =
                        format!("layer {} ends after {before} of {} bytes", arrival.digest, arrival.size);
                    return Err(RegistryError::new(RegistryErrorKind::Refused, action));
                }
                _ => {}
            }
            if arrival.arrived() < arrival.size {
                self.rest(pause);
                pause *= 2;
            }
        }
        Ok(())
    }

    /// Waits before the next try, or until nobody needs one.
    fn rest(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.is_stopped() {
            thread::sleep(TICK);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

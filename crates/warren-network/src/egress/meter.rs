//! How many connections each sandbox has, and how fast it makes new ones: the second line behind
//! the kernel's limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use warren_core::SandboxId;
use warren_core::network::NetworkLimits;

use crate::book::{Book, Guest};

/// Connections of all sandboxes together. Each takes two descriptors.
const MOST_OF_ALL: usize = 32_768;
/// From here on meters of sandboxes that are gone are looked for.
const MANY: usize = 1024;

/// Counts them all.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    rates: Mutex<HashMap<SandboxId, Rate>>,
    live: AtomicUsize,
}

/// A bucket that fills up with leave for new connections, and holds a second's worth.
#[derive(Debug)]
struct Rate {
    left: f64,
    seen: Instant,
}

/// A connection's place. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    meters: Arc<Meters>,
    guest: Arc<Guest>,
}

impl Meters {
    /// A place for one more connection, if the sandbox may have it.
    pub(crate) fn admit(self: &Arc<Self>, book: &Book, guest: &Arc<Guest>) -> Option<Slot> {
        let limits = limits(guest);
        if !self.is_in_time(book, guest, limits.new_connections_per_s) {
            return None;
        }
        self.live.fetch_add(1, Ordering::Relaxed);
        let before = guest.figures.proxied.fetch_add(1, Ordering::Relaxed);
        let slot = Slot { meters: Arc::clone(self), guest: Arc::clone(guest) };
        let fits = before < u64::from(limits.connections) && self.live.load(Ordering::Relaxed) <= MOST_OF_ALL;
        fits.then_some(slot)
    }

    fn is_in_time(&self, book: &Book, guest: &Guest, per_s: u32) -> bool {
        let (now, most) = (Instant::now(), f64::from(per_s));
        let mut rates = self.rates.lock();
        if rates.len() > MANY && !rates.contains_key(&guest.id) {
            rates.retain(|id, _| book.by_id(id).is_some());
        }
        let rate = rates.entry(guest.id.clone()).or_insert(Rate { left: most, seen: now });
        rate.left = (rate.left + now.duration_since(rate.seen).as_secs_f64() * most).min(most);
        rate.seen = now;
        let is_in_time = rate.left >= 1.0;
        if is_in_time {
            rate.left -= 1.0;
        }
        is_in_time
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.guest.figures.proxied.fetch_sub(1, Ordering::Relaxed);
        self.meters.live.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The smallest that any of its policies says. Without any, nothing.
fn limits(guest: &Guest) -> NetworkLimits {
    let policies = guest.policies.borrow();
    let connections = policies.iter().map(|policy| policy.limits.connections).min().unwrap_or(0);
    let new = policies.iter().map(|policy| policy.limits.new_connections_per_s).min().unwrap_or(0);
    NetworkLimits { connections, new_connections_per_s: new, ..NetworkLimits::default() }
}

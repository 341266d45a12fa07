//! Which addresses a sandbox's questions were answered with. A connection by name goes to one of these or nowhere.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use warren_core::HostName;

/// A name stays pinned at least so long: clients ask once and connect a little later.
const LEAST: Duration = Duration::from_secs(60);
/// And at most so long after its last answer.
const MOST: Duration = Duration::from_secs(3600);
/// Names and addresses of one sandbox that are remembered; the oldest go first.
const MOST_PINS: usize = 4096;

/// One sandbox's pins.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    until: Mutex<HashMap<(HostName, IpAddr), Instant>>,
}

impl Pins {
    /// The name was answered with these addresses.
    pub(crate) fn pin(&self, name: &HostName, addresses: &[IpAddr], ttl: Duration) {
        let until = Instant::now() + ttl.clamp(LEAST, MOST);
        let mut pins = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        for address in addresses {
            pins.insert((name.clone(), *address), until);
        }
        if pins.len() > MOST_PINS {
            let now = Instant::now();
            pins.retain(|_, until| *until > now);
            while pins.len() > MOST_PINS {
                let oldest = pins.iter().min_by_key(|(_, until)| **until).map(|(pin, _)| pin.clone());
                oldest.map(|pin| pins.remove(&pin));
            }
        }
    }

    pub(crate) fn holds(&self, name: &HostName, address: IpAddr) -> bool {
        let pins = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        pins.get(&(name.clone(), address)).is_some_and(|until| *until > Instant::now())
    }

    /// The names that an address was answered for.
    pub(crate) fn names(&self, address: IpAddr) -> Vec<HostName> {
        let (now, pins) = (Instant::now(), self.until.lock().unwrap_or_else(PoisonError::into_inner));
        let here = pins.iter().filter(|((_, pinned), until)| *pinned == address && **until > now);
        here.map(|((name, _), _)| name.clone()).collect()
    }
}

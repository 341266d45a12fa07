use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;

use crate::arrival::Peer;
use crate::settings::AuthSettings;

/// Addresses that are counted apart; further ones share one count.
const MOST_PEERS: usize = 4096;

/// Failed attempts to come in, by where they came from. Only failures are ever slowed down: a right
/// key always passes.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    peers: Mutex<HashMap<Option<Peer>, Window>>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    began: Instant,
    failures: u64,
}

impl Attempts {
    /// Counts a failure. Answers for how many seconds there is no use in trying, if there were too
    /// many.
    pub(crate) fn failed(&self, peer: Option<Peer>, limits: &AuthSettings) -> Option<u64> {
        let now = Instant::now();
        let over = |window: &Window| now.duration_since(window.began) >= limits.failure_window;
        let mut peers = self.peers.lock();
        if peers.len() >= MOST_PEERS && !peers.contains_key(&peer) {
            peers.retain(|_, window| !over(window));
        }
        let key = if peers.len() >= MOST_PEERS && !peers.contains_key(&peer) { None } else { peer };
        let window = peers.entry(key).or_insert(Window { began: now, failures: 0 });
        if over(window) {
            *window = Window { began: now, failures: 0 };
        }
        window.failures += 1;
        let left = limits.failure_window.saturating_sub(now.duration_since(window.began));
        (window.failures > limits.max_failures).then(|| left.as_secs().max(1))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    fn limits(max_failures: u64) -> AuthSettings {
        AuthSettings { enabled: true, max_failures, failure_window: Duration::from_secs(60) }
    }

    fn peer(number: u32) -> Option<Peer> {
        Some(Peer::new(Ipv4Addr::from(number).into()))
    }

    #[test]
    fn an_address_with_too_many_failures_is_slowed_down_and_others_are_not() {
        let limits = limits(3);
        let attempts = Attempts::default();
        let answers: Vec<bool> = (0..5).map(|_| attempts.failed(peer(1), &limits).is_some()).collect();
        assert_eq!(answers, [false, false, false, true, true]);
        assert_eq!(attempts.failed(peer(2), &limits), None);
    }

    #[test]
    fn memory_is_bounded_however_many_addresses_try() {
        let (attempts, limits) = (Attempts::default(), limits(50));
        for number in 0..3 * u32::try_from(MOST_PEERS).unwrap() {
            attempts.failed(peer(number), &limits);
        }
        assert!(attempts.peers.lock().len() <= MOST_PEERS + 1);
    }
}

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::extract::Request;

use crate::config::Auth;

/// Addresses that are counted apart; whoever comes when so many are counted shares one count with the others.
const MOST_PEERS: usize = 4096;

/// Where a request came from: one IPv4 address, or one IPv6 network, whose addresses cost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(IpAddr);

impl Peer {
    pub(crate) fn new(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
            address => Self(address),
        }
    }

    /// As the listener wrote it down.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        request.extensions().get().copied()
    }
}

/// Failed attempts to come in, by where they came from. Only failures are ever slowed down: a right key always passes.
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
    /// Counts a failure. Answers for how many seconds there is no use in trying, if there were too many.
    pub(crate) fn failed(&self, peer: Option<Peer>, limits: &Auth) -> Option<u64> {
        let now = Instant::now();
        let over = |window: &Window| now.duration_since(window.began) >= limits.failure_window;
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
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

    use super::*;
    use crate::config::Config;

    fn peer(number: u32) -> Option<Peer> {
        Some(Peer::new(Ipv4Addr::from(number).into()))
    }

    #[test]
    fn an_address_with_too_many_failures_is_slowed_down_and_others_are_not() {
        let limits = Auth { max_failures: 3, ..Config::default().auth };
        let attempts = Attempts::default();
        let answers: Vec<bool> = (0..5).map(|_| attempts.failed(peer(1), &limits).is_some()).collect();
        assert_eq!(answers, [false, false, false, true, true]);
        assert_eq!(attempts.failed(peer(2), &limits), None);
    }

    #[test]
    fn memory_is_bounded_however_many_addresses_try() {
        let (attempts, limits) = (Attempts::default(), Config::default().auth);
        for number in 0..3 * u32::try_from(MOST_PEERS).unwrap() {
            attempts.failed(peer(number), &limits);
        }
        assert!(attempts.peers.lock().unwrap().len() <= MOST_PEERS + 1);
    }

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let peers = ["2001:db8::1", "2001:db8::ffff:1"].map(|text| Peer::new(text.parse().unwrap()));
        assert_eq!(peers[0], peers[1]);
        assert_eq!(Peer::new("::ffff:10.0.0.1".parse().unwrap()), Peer::new("10.0.0.1".parse().unwrap()));
    }
}

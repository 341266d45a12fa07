//! The last that a sandbox did on the network.

use std::collections::VecDeque;

use tokio::sync::watch;
use warren_core::NetworkEntry;

use super::NetworkSighting;

/// Entries that are kept of a sandbox that runs.
pub(crate) const KEPT: usize = 256;
/// Entries that are kept of one that does not.
const KEPT_AT_REST: usize = 32;

#[derive(Debug)]
pub(crate) struct Log {
    ring: VecDeque<NetworkSighting>,
    /// The number of the newest entry.
    pub(crate) newest: watch::Sender<u64>,
}

impl Log {
    /// Numbers are above those of every earlier start: nobody writes a thousand entries in a
    /// millisecond.
    pub(crate) fn since(started_unix_ms: u64) -> Self {
        Self { ring: VecDeque::new(), newest: watch::Sender::new(started_unix_ms.saturating_mul(1000)) }
    }

    pub(crate) fn push(&mut self, entry: NetworkEntry, at_unix_ms: u64) {
        let number = self.last() + 1;
        if self.ring.len() >= KEPT {
            self.ring.pop_front();
        }
        self.ring.push_back(NetworkSighting { number, at_unix_ms, entry });
        self.newest.send_replace(number);
    }

    pub(crate) fn shrink(&mut self) {
        self.ring.drain(..self.ring.len().saturating_sub(KEPT_AT_REST));
        self.ring.shrink_to_fit();
    }

    pub(crate) fn last(&self) -> u64 {
        *self.newest.borrow()
    }

    pub(crate) fn after(&self, number: u64, most: usize) -> Vec<NetworkSighting> {
        self.ring.iter().filter(|sighting| sighting.number > number).take(most).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use warren_core::NetworkVerdict;
    use warren_core::network::Protocol;

    use super::*;

    #[test]
    fn the_last_entries_are_kept_and_numbers_go_on_over_starts() {
        let entry = NetworkEntry {
            verdict: NetworkVerdict::Allowed,
            protocol: Protocol::Tcp,
            host: None,
            address: None,
            port: 80,
            rule: String::new(),
            process: None,
            count: 1,
        };
        let mut log = Log::since(1000);
        for _ in 0..KEPT + 10 {
            log.push(entry.clone(), 1001);
        }
        let all = log.after(0, usize::MAX);
        assert_eq!((all.len(), all[0].number), (KEPT, 1_000_011));
        assert_eq!(log.after(all[KEPT - 2].number, 10).len(), 1);
        log.shrink();
        assert_eq!(log.after(0, usize::MAX).len(), KEPT_AT_REST);
        assert!(Log::since(1002).last() > log.last());
    }
}

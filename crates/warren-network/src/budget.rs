use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

const QUESTIONS_PER_SECOND: u32 = 200;
/// Questions that may come at once before the rate holds.
const BURST: u32 = 400;
const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / QUESTIONS_PER_SECOND as u64);
/// A question over the rate waits for its turn, but not longer: then it is lost, as in any network
/// that is too full.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Questions of one sandbox that are being answered or wait for it.
const MOST_WAITING: usize = 512;
/// Of these, the ones that an upstream server has been asked.
const MOST_ASKED: usize = 64;
/// Connections of one sandbox that questions come over.
const MOST_CONNECTIONS: usize = 8;

/// How much one sandbox may ask, so that none of them takes the names away from the others.
#[derive(Debug)]
pub(crate) struct Budget {
    /// When the last question that was let in would have come, had they all come at the rate.
    last: Mutex<Option<Instant>>,
    pub(super) waiting: Arc<Semaphore>,
    pub(super) asked: Semaphore,
    pub(super) connections: Arc<Semaphore>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            last: Mutex::default(),
            waiting: Arc::new(Semaphore::new(MOST_WAITING)),
            asked: Semaphore::new(MOST_ASKED),
            connections: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
        }
    }
}

impl Budget {
    /// How long one more question has to wait; `None` if it is one too many.
    pub(super) fn admit(&self, now: Instant) -> Option<Duration> {
        let mut last = self.last.lock();
        let next = last.map_or(now, |last| last.max(now)) + INTERVAL;
        let wait = next.saturating_duration_since(now + INTERVAL * BURST);
        if wait > LONGEST_WAIT {
            return None;
        }
        *last = Some(next);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(budget: &Budget, now: Instant, count: usize) -> Vec<Duration> {
        (0..count).filter_map(|_| budget.admit(now)).collect()
    }

    #[test]
    fn a_burst_passes_then_questions_wait_then_they_are_lost() {
        let (budget, now) = (Budget::default(), Instant::now());
        let waits = admitted(&budget, now, 10_000);
        assert_eq!(waits.iter().filter(|wait| wait.is_zero()).count(), 400);
        assert_eq!(waits.len(), 600, "one second's worth waits");
        assert!(waits.is_sorted() && waits.last() == Some(&LONGEST_WAIT));
    }

    #[test]
    fn the_rate_holds_over_time_and_rest_brings_the_burst_back() {
        let (budget, start) = (Budget::default(), Instant::now());
        admitted(&budget, start, 10_000);
        let second = start + Duration::from_secs(1);
        assert_eq!(admitted(&budget, second, 10_000).len(), 200);
        let later = start + Duration::from_secs(60);
        assert_eq!(admitted(&budget, later, 400), vec![Duration::ZERO; 400]);
    }
}

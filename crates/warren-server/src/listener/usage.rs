use std::sync::Arc;

use http::Version;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::Http;

/// The use of one connection. A clone is the same connection's.
#[derive(Clone)]
pub(super) struct Usage(Arc<Counts>);

struct Counts {
    requests: Mutex<Requests>,
    /// The next deadline may be earlier than it was.
    hurried: Notify,
}

/// Of how much use a connection is, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// There was no request at all.
    Silent,
    /// There is none at the moment.
    Resting,
    Busy,
}

struct Requests {
    under_way: usize,
    /// It has become something else, which nobody here can tell the use of.
    upgraded: bool,
    /// When the last one ended.
    unused_since: Instant,
    /// There was a request at all.
    used: bool,
    /// When the first byte of the next one arrived.
    head_began: Option<Instant>,
    /// Bytes between requests may be anything in HTTP/2, and say nothing of a head.
    multiplexed: bool,
}

impl Usage {
    pub(super) fn new() -> Self {
        let requests = Requests {
            under_way: 0,
            upgraded: false,
            unused_since: Instant::now(),
            used: false,
            head_began: None,
            multiplexed: false,
        };
        Self(Arc::new(Counts { requests: Mutex::new(requests), hurried: Notify::new() }))
    }

    pub(super) fn begin(&self, version: Version) -> UnderWay {
        self.change(|requests| {
            requests.under_way += 1;
            requests.used = true;
            requests.head_began = None;
            requests.multiplexed |= version == Version::HTTP_2;
        });
        UnderWay(self.clone())
    }

    /// It is about to become something else.
    pub(super) fn upgrade(&self) {
        self.change(|requests| requests.upgraded = true);
    }

    /// Of how much use it is, and since when.
    pub(super) fn rank(&self) -> (Rank, Instant) {
        self.change(|requests| (requests.rank(), requests.unused_since))
    }

    /// Bytes arrived.
    pub(super) fn heard(&self) {
        let began = self.change(|requests| {
            let begins = requests.under_way == 0 && requests.head_began.is_none();
            if begins {
                requests.head_began = Some(Instant::now());
            }
            begins
        });
        if began {
            self.0.hurried.notify_one();
        }
    }

    /// Waits until no request came for too long. For the first one, and for one that has begun to
    /// come, there is less patience.
    pub(super) async fn until_unused(&self, http: &Http) {
        loop {
            let deadline = self.change(|requests| requests.deadline(http));
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(deadline.unwrap_or_else(|| Instant::now() + http.idle_timeout)) => {}
                () = self.0.hurried.notified() => {}
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Requests) -> T) -> T {
        change(&mut self.0.requests.lock())
    }
}

impl Requests {
    fn rank(&self) -> Rank {
        match self {
            _ if self.under_way > 0 || self.upgraded => Rank::Busy,
            _ if self.used => Rank::Resting,
            _ => Rank::Silent,
        }
    }

    fn deadline(&self, http: &Http) -> Option<Instant> {
        if self.under_way > 0 {
            return None;
        }
        Some(match self.head_began {
            _ if !self.used => self.unused_since + http.header_timeout,
            Some(began) if !self.multiplexed => began + http.header_timeout,
            _ => self.unused_since + http.idle_timeout,
        })
    }
}

/// A request that has not been answered to the end.
pub(super) struct UnderWay(Usage);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.change(|requests| {
            requests.under_way -= 1;
            requests.unused_since = Instant::now();
            requests.head_began = None;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;

    async fn after(usage: &Usage) -> Duration {
        let began = Instant::now();
        usage.until_unused(&Config::default().http).await;
        began.elapsed().max(Duration::from_millis(1))
    }

    #[tokio::test(start_paused = true)]
    async fn patience_depends_on_what_was_there_before() {
        let (header, idle) = (Duration::from_secs(10), Duration::from_secs(60));
        let near =
            |found: Duration, wanted: Duration| found >= wanted && found < wanted + Duration::from_secs(1);
        let fresh = Usage::new();
        assert!(near(after(&fresh).await, header));
        let used = Usage::new();
        drop(used.begin(Version::HTTP_11));
        assert!(near(after(&used).await, idle));
        let beginning = Usage::new();
        drop(beginning.begin(Version::HTTP_11));
        beginning.heard();
        assert!(near(after(&beginning).await, header));
        let multiplexed = Usage::new();
        drop(multiplexed.begin(Version::HTTP_2));
        multiplexed.heard();
        assert!(near(after(&multiplexed).await, idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_under_way_may_be_quiet() {
        let usage = Usage::new();
        let request = usage.begin(Version::HTTP_11);
        let waited = tokio::time::timeout(Duration::from_secs(3600), after(&usage)).await;
        assert!(waited.is_err());
        drop(request);
        after(&usage).await;
    }
}

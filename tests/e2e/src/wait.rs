use std::time::{Duration, Instant};

/// Waits until something is so, and insists that it comes in time. Answers how long it took.
#[track_caller]
pub fn eventually(patience: Duration, what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < patience, "after {patience:?} it is not so that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    started.elapsed()
}

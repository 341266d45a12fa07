//! How many sandboxes are made at once. More than there are processors make none of them sooner:
//! they only wait for one another in the kernel, and all together take longer.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A start that takes longer than this is no reason to let others wait: it hangs on something else
/// than the processors.
const PATIENCE: Duration = Duration::from_millis(100);

/// Counts the starts under way.
#[derive(Debug)]
pub(super) struct Starts {
    under_way: Mutex<usize>,
    ended: Condvar,
    /// More begin only after a wait.
    at_ease: usize,
}

/// A start under way; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Start<'a>(&'a Starts);

impl Starts {
    pub(super) fn new() -> Self {
        Self::at_ease(std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn at_ease(at_ease: usize) -> Self {
        Self { under_way: Mutex::default(), ended: Condvar::new(), at_ease }
    }

    /// Begins a start, when there is a processor for it or patience is at an end.
    pub(super) fn begin(&self) -> Start<'_> {
        let mut under_way = self.under_way.lock();
        let full = |under_way: &mut usize| *under_way >= self.at_ease;
        self.ended.wait_while_for(&mut under_way, full, PATIENCE);
        *under_way += 1;
        Start(self)
    }

    pub(super) fn any(&self) -> bool {
        *self.under_way.lock() > 0
    }
}

impl Drop for Start<'_> {
    fn drop(&mut self) {
        *self.0.under_way.lock() -= 1;
        self.0.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn more_than_there_are_processors_wait_for_an_end() {
        let starts = Starts::at_ease(1);
        let first = starts.begin();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let begun = Instant::now();
                drop(starts.begin());
                begun.elapsed()
            });
            std::thread::sleep(Duration::from_millis(20));
            drop(first);
            let waited = second.join().unwrap();
            assert!(waited >= Duration::from_millis(10), "{waited:?}");
        });
        assert!(!starts.any());
    }

    #[test]
    fn one_that_hangs_does_not_keep_others_from_starting() {
        let starts = Starts::at_ease(1);
        let _hangs = starts.begin();
        let begun = Instant::now();
        drop(starts.begin());
        assert!(begun.elapsed() >= PATIENCE && starts.any());
    }
}

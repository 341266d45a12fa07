//! Which numbers of a block are free. One that was given back rests for a while: answers to who had
//! it may still be on their way.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use crate::place::{NUMBERS, Place};

/// How long a number rests.
pub(crate) const REST: Duration = Duration::from_secs(60);

/// Free numbers, the longest free first.
#[derive(Debug)]
pub(crate) struct Numbers {
    free: VecDeque<(u16, Option<Instant>)>,
}

impl Numbers {
    /// All but those that are taken, beginning somewhere: nobody knows who had them before.
    pub(crate) fn new(start: u16, taken: &HashSet<u16>) -> Self {
        let all = (0..NUMBERS).map(|offset| start.wrapping_add(offset) % NUMBERS);
        let free = all.filter(|number| Place::is_given(*number) && !taken.contains(number));
        Self { free: free.map(|number| (number, None)).collect() }
    }

    /// `None` while none has rested long enough.
    pub(crate) fn take(&mut self, now: Instant) -> Option<u16> {
        let (number, since) = self.free.front().copied()?;
        if since.is_some_and(|since| now.saturating_duration_since(since) < REST) {
            return None;
        }
        self.free.pop_front();
        Some(number)
    }

    /// The number that was free for longest.
    pub(crate) fn next(&self) -> Option<u16> {
        self.free.front().map(|(number, _)| *number)
    }

    pub(crate) fn give_back(&mut self, number: u16, now: Instant) {
        self.free.push_back((number, Some(now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_rests_before_it_is_given_again() {
        let start = Instant::now();
        let mut numbers = Numbers::new(17, &HashSet::from([18]));
        assert_eq!((numbers.take(start), numbers.take(start)), (Some(17), Some(19)));
        numbers.give_back(17, start);
        let mut seen = HashSet::from([19]);
        while let Some(number) = numbers.take(start + REST - Duration::from_millis(1)) {
            assert!(Place::is_given(number) && seen.insert(number), "{number}");
        }
        assert_eq!(seen.len(), 16 * 254 - 2, "all but the one that is taken and the one that rests");
        assert_eq!(numbers.take(start + REST), Some(17));
        assert_eq!(numbers.take(start + REST), None);
    }
}

use std::collections::VecDeque;

use super::Output;

/// Keeps the beginning and the end of a stream of any length.
#[derive(Debug)]
pub(crate) struct Collector {
    head: Vec<u8>,
    head_cap: usize,
    tail: VecDeque<u8>,
    tail_cap: usize,
    total: u64,
    dropped: bool,
}

impl Collector {
    pub(crate) fn new(cap: usize) -> Self {
        let (tail_cap, head) = (cap / 2, Vec::new());
        Self { head, head_cap: cap - tail_cap, tail: VecDeque::new(), tail_cap, total: 0, dropped: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_cap - self.head.len()));
        self.head.extend_from_slice(first);
        let kept = &rest[rest.len() - rest.len().min(self.tail_cap)..];
        let excess = (self.tail.len() + kept.len()).saturating_sub(self.tail_cap);
        self.dropped |= excess > 0 || kept.len() < rest.len();
        self.tail.drain(..excess);
        self.tail.extend(kept);
    }

    /// Notes that something was lost here. What follows counts as the end.
    pub(crate) fn skip(&mut self) {
        self.head_cap = self.head.len();
        self.dropped = true;
    }

    pub(crate) fn finish(self) -> Output {
        let Self { mut head, tail, total, dropped, .. } = self;
        let dropped_at = dropped.then_some(head.len());
        let (first, second) = tail.as_slices();
        head.extend_from_slice(first);
        head.extend_from_slice(second);
        Output { bytes: head, total, dropped_at }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_kept_is_the_beginning_and_the_end(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
            cap in 0usize..100,
        ) {
            let mut collector = Collector::new(cap);
            pieces.iter().for_each(|piece| collector.push(piece));
            let output = collector.finish();
            let whole = pieces.concat();
            prop_assert_eq!(output.total, whole.len() as u64);
            prop_assert_eq!(output.bytes.len(), whole.len().min(cap));
            match output.dropped_at {
                None => prop_assert_eq!(output.bytes, whole),
                Some(at) => {
                    prop_assert!(whole.len() > cap);
                    prop_assert!(whole.starts_with(&output.bytes[..at]));
                    prop_assert!(whole.ends_with(&output.bytes[at..]));
                    prop_assert_eq!(at, cap - cap / 2);
                }
            }
        }
    }
}

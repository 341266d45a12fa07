use std::collections::VecDeque;

use super::Output;

/// Keeps the beginning and the end of a stream of any length.
#[derive(Debug)]
pub struct Collector {
    head: Vec<u8>,
    head_cap: usize,
    tail: VecDeque<u8>,
    tail_cap: usize,
    total: u64,
    dropped: bool,
}

impl Collector {
    pub fn new(cap: usize) -> Self {
        let (tail_cap, head) = (cap / 2, Vec::new());
        Self { head, head_cap: cap - tail_cap, tail: VecDeque::new(), tail_cap, total: 0, dropped: false }
    }

    pub fn push(&mut self, bytes: &[u8]) {
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
    pub fn skip(&mut self) {
        self.head_cap = self.head.len();
        self.dropped = true;
    }

    pub fn finish(self) -> Output {
        let Self { mut head, tail, total, dropped, .. } = self;
        let dropped_at = dropped.then_some(head.len());
        let (first, second) = tail.as_slices();
        head.extend_from_slice(first);
        head.extend_from_slice(second);
        Output { bytes: head, total, dropped_at }
    }
}

impl Output {
    /// The kept part as text, with a line in place of the rest, and whether there is such a rest.
    pub fn text(&self) -> (String, bool) {
        let Some(at) = self.dropped_at else {
            return (String::from_utf8_lossy(&self.bytes).into_owned(), false);
        };
        let (head, tail) = self.bytes.split_at(at.min(self.bytes.len()));
        let head = whole_end(head);
        let tail = whole_beginning(tail);
        let missing = self.total.saturating_sub((head.len() + tail.len()) as u64);
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        let before = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        (format!("{head}{before}[… {missing} bytes left out …]\n{tail}"), true)
    }
}

/// Without the character that was cut at the end.
fn whole_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Without the rest of the character that was cut at the beginning.
fn whole_beginning(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    &bytes[rest..]
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

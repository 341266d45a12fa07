//! A process's newest output: both streams in the order of their arrival, positions counted in
//! bytes over both. The ring never decides what may be forgotten; its owner says how far with a
//! floor.

use std::collections::VecDeque;

use warren_wire::guest::FrameKind;

/// The cost of one run of bytes of the same stream, so that a process that changes streams with
/// every byte cannot make the marks outgrow the bytes.
const MARK_COST: usize = 16;
const SMALLEST: usize = 4 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub(crate) fn frame_kind(self) -> FrameKind {
        match self {
            Self::Stdout => FrameKind::Stdout,
            Self::Stderr => FrameKind::Stderr,
        }
    }
}

/// Bytes of one stream; two pieces where they wrap around the buffer's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run<'a> {
    pub(crate) stream: Stream,
    pub(crate) pieces: [&'a [u8]; 2],
}

impl Run<'_> {
    pub(crate) fn len(&self) -> usize {
        self.pieces[0].len() + self.pieces[1].len()
    }
}

/// Where the bytes of a stream begin.
#[derive(Debug, Clone, Copy)]
struct Mark {
    from: u64,
    stream: Stream,
}

#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// Empty or a power of two long; position `p` lies at `p % len`.
    buffer: Vec<u8>,
    start: u64,
    end: u64,
    /// In order; the first covers `start`. Neighbours differ in stream.
    marks: VecDeque<Mark>,
}

impl Ring {
    /// Position of the oldest byte still held.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Position after the newest byte.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Memory the buffer takes.
    pub(crate) fn allocated(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes held.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.end - self.start).unwrap_or(usize::MAX)
    }

    /// Forgets the oldest bytes, none at or after `floor`, until `want` more bytes fit into
    /// `limit`. Returns how many bytes fit now.
    pub(crate) fn make_room(&mut self, want: usize, floor: u64, limit: usize) -> usize {
        let excess = self.cost().saturating_sub(limit.saturating_sub(want));
        self.forget(self.start.saturating_add(excess as u64).min(floor));
        limit.saturating_sub(self.cost())
    }

    /// How many bytes would fit into `limit` if everything before `floor` were forgotten.
    pub(crate) fn room_above(&self, floor: u64, limit: usize) -> usize {
        let floor = floor.clamp(self.start, self.end);
        let marks = self.marks.len() - self.marks.partition_point(|mark| mark.from <= floor);
        let held = usize::try_from(self.end - floor).unwrap_or(usize::MAX);
        limit.saturating_sub(held.saturating_add((marks + 1) * MARK_COST))
    }

    /// The oldest position from which everything up to `position` counts for no more than `cost`.
    pub(crate) fn reach_back(&self, position: u64, cost: usize) -> u64 {
        let (mut left, mut reached) = (cost as u64, position);
        let before = self.marks.partition_point(|mark| mark.from < position);
        for mark in self.marks.iter().take(before).rev() {
            let run = reached.saturating_sub(mark.from);
            if run.saturating_add(MARK_COST as u64) > left {
                break;
            }
            left -= run + MARK_COST as u64;
            reached = mark.from;
        }
        reached.saturating_sub(left)
    }

    /// A place for up to `want` new bytes, to be followed by [`Ring::commit`]. The buffer grows
    /// with its use.
    pub(crate) fn space(&mut self, want: usize) -> &mut [u8] {
        let length = self.buffer.len();
        let free = length - self.len();
        if free < want && free <= length / 2 {
            self.grow(self.len().saturating_add(want));
        }
        let length = self.buffer.len();
        let free = length - self.len();
        let from = self.index(self.end);
        let until = length.min(from + free.min(want));
        &mut self.buffer[from..until]
    }

    /// Takes over the first `count` bytes of the last [`Ring::space`].
    pub(crate) fn commit(&mut self, count: usize, stream: Stream) {
        let count = count.min(self.buffer.len() - self.len());
        if count == 0 {
            return;
        }
        if self.marks.back().is_none_or(|mark| mark.stream != stream) {
            self.marks.push_back(Mark { from: self.end, stream });
        }
        self.end += count as u64;
    }

    /// The bytes of one stream that begin at `position`, `limit` of them at most.
    pub(crate) fn run_at(&self, position: u64, limit: usize) -> Option<Run<'_>> {
        if position < self.start || position >= self.end {
            return None;
        }
        let after = self.marks.partition_point(|mark| mark.from <= position);
        let stream = self.marks.get(after.checked_sub(1)?)?.stream;
        let until = self.marks.get(after).map_or(self.end, |mark| mark.from);
        let length = usize::try_from(until - position).unwrap_or(usize::MAX).min(limit);
        let from = self.index(position);
        let first = length.min(self.buffer.len() - from);
        Some(Run { stream, pieces: [&self.buffer[from..from + first], &self.buffer[..length - first]] })
    }

    fn cost(&self) -> usize {
        self.len() + self.marks.len() * MARK_COST
    }

    fn index(&self, position: u64) -> usize {
        // The remainder is smaller than the buffer, so it fits whatever the position is.
        usize::try_from(position.checked_rem(self.buffer.len() as u64).unwrap_or(0)).unwrap_or(0)
    }

    fn forget(&mut self, upto: u64) {
        self.start = upto.clamp(self.start, self.end);
        while self.marks.get(1).is_some_and(|next| next.from <= self.start) {
            self.marks.pop_front();
        }
        match self.marks.front_mut() {
            Some(_) if self.start == self.end => self.marks.clear(),
            Some(first) => first.from = first.from.max(self.start),
            None => {}
        }
    }

    /// Grows fourfold at a time, up to what `needed` asks for.
    fn grow(&mut self, needed: usize) {
        let target = needed.next_power_of_two().min((self.buffer.len() * 4).max(SMALLEST));
        if target <= self.buffer.len() {
            return;
        }
        let mut grown =
            Self { buffer: vec![0; target], start: self.start, end: self.start, ..Self::default() };
        while let Some(run) = self.run_at(grown.end, usize::MAX) {
            let length = run.len();
            for piece in run.pieces {
                grown.write(piece);
            }
            debug_assert!(length > 0, "a run has bytes");
        }
        self.buffer = grown.buffer;
    }

    /// Copies into a buffer that is known to be large enough.
    fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let from = self.index(self.end);
            let count = bytes.len().min(self.buffer.len() - from);
            self.buffer[from..from + count].copy_from_slice(&bytes[..count]);
            self.end += count as u64;
            bytes = &bytes[count..];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 8 * 1024;

    /// The ring as plainly as can be: every byte ever written with its stream.
    #[derive(Default)]
    struct Model {
        written: Vec<(u8, Stream)>,
    }

    fn append(ring: &mut Ring, model: &mut Model, mut bytes: &[u8], stream: Stream, floor: u64) {
        while !bytes.is_empty() {
            let room = ring.make_room(bytes.len(), floor, LIMIT);
            if room == 0 {
                return;
            }
            let space = ring.space(bytes.len().min(room));
            let count = space.len().min(bytes.len());
            assert!(count > 0, "there is room, so there is space");
            space[..count].copy_from_slice(&bytes[..count]);
            ring.commit(count, stream);
            model.written.extend(bytes[..count].iter().map(|byte| (*byte, stream)));
            bytes = &bytes[count..];
        }
    }

    fn check(ring: &Ring, model: &Model, limit: usize) {
        assert_eq!(ring.end(), model.written.len() as u64);
        let mut position = ring.start();
        while let Some(run) = ring.run_at(position, limit) {
            let from = usize::try_from(position).unwrap();
            let seen: Vec<_> = run.pieces.concat().into_iter().map(|byte| (byte, run.stream)).collect();
            assert_eq!(seen, model.written[from..from + run.len()]);
            assert!(run.len() <= limit);
            position += run.len() as u64;
        }
        assert_eq!(position, ring.end());
    }

    proptest! {
        #[test]
        fn holds_the_newest_bytes_and_never_passes_the_floor(
            writes in proptest::collection::vec((any::<bool>(), 1usize..3000, any::<u8>()), 1..60),
            lag in proptest::option::of(0u64..20_000),
            limit in 1usize..5000,
        ) {
            let (mut ring, mut model) = (Ring::default(), Model::default());
            for (error, length, seed) in writes {
                let stream = if error { Stream::Stderr } else { Stream::Stdout };
                let floor = lag.map_or(u64::MAX, |lag| ring.end().saturating_sub(lag));
                let bytes: Vec<u8> = (0..length).map(|n| seed.wrapping_add(u8::try_from(n % 251).unwrap())).collect();
                append(&mut ring, &mut model, &bytes, stream, floor);
                prop_assert!(ring.start() <= floor || floor >= ring.end());
                prop_assert!(ring.cost() <= LIMIT + MARK_COST);
                prop_assert!(ring.allocated() <= LIMIT.next_power_of_two() * 2);
                check(&ring, &model, limit);
            }
        }
    }

    #[test]
    fn single_bytes_of_alternating_streams_stay_bounded() {
        let (mut ring, mut model) = (Ring::default(), Model::default());
        for n in 0..20_000 {
            let stream = if n % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
            append(&mut ring, &mut model, b"x", stream, u64::MAX);
        }
        assert!(ring.marks.len() * MARK_COST <= LIMIT + MARK_COST);
        check(&ring, &model, 100);
    }

    #[test]
    fn reaching_back_counts_the_changes_of_stream() {
        let (mut ring, mut model) = (Ring::default(), Model::default());
        append(&mut ring, &mut model, &[0; 1000], Stream::Stdout, u64::MAX);
        assert_eq!((ring.reach_back(1000, 300), ring.reach_back(500, 300)), (700, 200));
        for n in 0..100 {
            let stream = if n % 2 == 0 { Stream::Stderr } else { Stream::Stdout };
            append(&mut ring, &mut model, b"x", stream, u64::MAX);
        }
        assert_eq!(ring.reach_back(1100, 17 * 10), 1090);
        let floor = ring.reach_back(1100, LIMIT / 2);
        assert!(floor < 1000 && ring.room_above(floor, LIMIT) + 2 * MARK_COST >= LIMIT / 2);
    }

    #[test]
    fn an_untouched_ring_takes_no_memory() {
        let ring = Ring::default();
        assert_eq!((ring.allocated(), ring.len(), ring.run_at(0, 10)), (0, 0, None));
    }
}

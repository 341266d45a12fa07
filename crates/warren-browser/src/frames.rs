//! Pictures of pages after each entry of the journal: the last ones, in memory.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::Browser;

/// Frames of one browser.
const MOST_FRAMES: usize = 64;
/// Bytes of all of them.
const MOST_BYTES: usize = 4 << 20;
/// A larger one is not kept.
pub(crate) const MOST_FRAME: usize = 512 << 10;

/// A picture of a page, as JPEG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub info: FrameInfo,
    pub jpeg: Bytes,
}

/// When a frame was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameInfo {
    /// The entry of the journal that it was taken after.
    pub entry: u64,
    pub at_unix_ms: u64,
    pub bytes: usize,
}

/// The frames of one browser, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    kept: VecDeque<Frame>,
    bytes: usize,
}

impl Frames {
    /// Keeps a frame, in place of an earlier one of the same entry.
    pub(crate) fn keep(&mut self, entry: u64, at_unix_ms: u64, jpeg: Bytes) {
        if jpeg.len() > MOST_FRAME {
            return;
        }
        if let Some(at) = self.kept.iter().position(|frame| frame.info.entry == entry) {
            self.drop_at(at);
        }
        self.bytes += jpeg.len();
        let info = FrameInfo { entry, at_unix_ms, bytes: jpeg.len() };
        self.kept.push_back(Frame { info, jpeg });
        while self.kept.len() > MOST_FRAMES || self.bytes > MOST_BYTES {
            self.drop_at(0);
        }
    }

    fn drop_at(&mut self, at: usize) {
        if let Some(frame) = self.kept.remove(at) {
            self.bytes -= frame.jpeg.len();
        }
    }
}

impl Browser {
    /// The frames that are kept, the oldest first.
    pub fn frames(&self) -> Vec<FrameInfo> {
        self.place.frames.lock().kept.iter().map(|frame| frame.info).collect()
    }

    /// The frame after an entry of the journal.
    pub fn frame(&self, entry: u64) -> Option<Frame> {
        self.place.frames.lock().kept.iter().find(|frame| frame.info.entry == entry).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_are_kept() {
        let mut frames = Frames::default();
        for entry in 0..100 {
            frames.keep(entry, entry, Bytes::from(vec![0; 1000]));
        }
        assert_eq!((frames.kept.len(), frames.bytes), (MOST_FRAMES, MOST_FRAMES * 1000));
        frames.keep(99, 100, Bytes::from(vec![0; 10]));
        assert_eq!((frames.kept.len(), frames.bytes), (MOST_FRAMES, (MOST_FRAMES - 1) * 1000 + 10));
        for entry in 200..220 {
            frames.keep(entry, entry, Bytes::from(vec![0; MOST_FRAME]));
        }
        assert!(frames.bytes <= MOST_BYTES);
        frames.keep(300, 300, Bytes::from(vec![0; MOST_FRAME + 1]));
        assert!(frames.kept.iter().all(|frame| frame.info.entry != 300));
    }
}

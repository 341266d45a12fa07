use std::collections::HashMap;

use warren_wire::guest::{WatchEvent, WatchKind};

/// Changes on their way out, with the halves of renames joined.
#[derive(Default)]
pub(super) struct Batch {
    events: Vec<WatchEvent>,
    bytes: usize,
    /// By cookie: first halves, told as removals until the second half comes.
    moved: HashMap<u32, Moved>,
}

struct Moved {
    event: usize,
    watches: Vec<i32>,
}

/// An event's cost beside its paths.
const OVERHEAD: usize = 32;

/// Events told at once.
const FRAME_EVENTS: usize = 512;

/// Bytes of paths told at once.
const FRAME_BYTES: usize = 128 * 1024;

impl Batch {
    /// Adds a change, unless it repeats the last one.
    pub(super) fn push(&mut self, kind: WatchKind, path: Vec<u8>) {
        let repeats =
            self.events.last().is_some_and(|last| last.kind == kind && last.path.as_bytes() == path);
        if repeats {
            return;
        }
        self.bytes += path.len() + OVERHEAD;
        self.events.push(WatchEvent { kind, path: path.into(), renamed_to: None, moved_away: None });
    }

    /// Adds the first half of a rename; `watches` are those of the directories that move.
    pub(super) fn push_moved(&mut self, path: Vec<u8>, cookie: u32, watches: Vec<i32>) {
        self.bytes += path.len() + OVERHEAD;
        self.moved.insert(cookie, Moved { event: self.events.len(), watches });
        let moved_away = Some(true);
        self.events.push(WatchEvent {
            kind: WatchKind::Removed,
            path: path.into(),
            renamed_to: None,
            moved_away,
        });
    }

    /// Joins the second half of a rename to the first and gives the old path with the watches that
    /// moved; `None` if the entry came from elsewhere.
    pub(super) fn complete_rename(&mut self, cookie: u32, to: Vec<u8>) -> Option<(Vec<u8>, Vec<i32>)> {
        let moved = self.moved.remove(&cookie)?;
        let event = self.events.get_mut(moved.event)?;
        self.bytes += to.len();
        event.kind = WatchKind::Renamed;
        event.renamed_to = Some(to.into());
        event.moved_away = None;
        Some((event.path.as_bytes().to_vec(), moved.watches))
    }

    pub(super) fn awaits_rename(&self) -> bool {
        !self.moved.is_empty()
    }

    /// Gives up waiting for second halves: what moved is gone. Gives the watches that went with it.
    pub(super) fn settle(&mut self) -> Vec<i32> {
        self.moved.drain().flat_map(|(_, moved)| moved.watches).collect()
    }

    /// True if there is enough to tell. The second half of a rename is next in the queue, so it is
    /// let in.
    pub(super) fn is_full(&self) -> bool {
        let full = self.events.len() >= FRAME_EVENTS || self.bytes >= FRAME_BYTES;
        full && (self.moved.is_empty() || self.events.len() >= 2 * FRAME_EVENTS)
    }

    /// The next frame's worth of settled events.
    pub(super) fn take(&mut self) -> Option<Vec<WatchEvent>> {
        let mut bytes = 0;
        let fits = |event: &&WatchEvent| {
            bytes +=
                event.path.as_bytes().len() + event.renamed_to.as_ref().map_or(0, |to| to.as_bytes().len());
            bytes < FRAME_BYTES
        };
        let count = self.events.iter().take(FRAME_EVENTS).take_while(fits).count();
        let count = count.max(1).min(self.events.len());
        self.bytes = 0;
        (count > 0).then(|| self.events.drain(..count).collect())
    }
}

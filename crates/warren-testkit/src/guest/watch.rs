//! Watches on a fake sandbox's files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use warren_wire::guest::{ByteString, EntryKind, FailureCode, FrameKind, Reply, WatchEvent, WatchKind};

use super::calls::refuse;
use super::line::Line;
use super::tree::absolute;
use super::{Gone, Guest};

/// How often a watch looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Everything that was changed, in order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    changes: Mutex<Vec<Change>>,
    grown: Condvar,
}

#[derive(Debug, Clone)]
struct Change {
    path: PathBuf,
    kind: WatchKind,
    renamed_to: Option<PathBuf>,
}

impl Log {
    pub(super) fn note(&self, path: &Path, kind: WatchKind) {
        self.push(Change { path: path.to_owned(), kind, renamed_to: None });
    }

    pub(super) fn note_renamed(&self, from: &Path, to: &Path) {
        self.push(Change {
            path: from.to_owned(),
            kind: WatchKind::Renamed,
            renamed_to: Some(to.to_owned()),
        });
    }

    fn push(&self, change: Change) {
        self.changes.lock().push(change);
        self.grown.notify_all();
    }

    /// Waits a little while for more than `seen` changes.
    fn wait(&self, seen: usize) {
        let none = |changes: &mut Vec<Change>| changes.len() <= seen;
        self.grown.wait_while_for(&mut self.changes.lock(), none, LOOK_EVERY);
    }
}

/// One watch: its path, and how many changes it has reported.
struct Watching<'a> {
    guest: &'a Guest,
    line: &'a Line,
    root: PathBuf,
    recursive: bool,
    told: Mutex<usize>,
}

/// Reports changes until the other side hangs up. An empty data frame is answered once all changes
/// so far are reported.
pub(super) fn watch(guest: &Guest, line: Line, path: &ByteString, recursive: bool) -> Result<(), Gone> {
    match guest.tree.stat(path) {
        Ok(entry) if entry.kind == EntryKind::Directory => {}
        Ok(_) => return line.fail(guest, refuse(FailureCode::WrongKind, "it is not a directory")),
        Err(failure) => return line.fail(guest, failure),
    }
    let began = guest.tree.log.changes.lock().len();
    line.reply(guest, &Reply::Done)?;
    let mut receiver = Line::new(line.stream().clone());
    let watching = Watching { guest, line: &line, root: absolute(path), recursive, told: Mutex::new(began) };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| watching.follow(&over));
        let served = watching.answer(&mut receiver);
        over.store(true, Ordering::SeqCst);
        served
    })
}

impl Watching<'_> {
    fn follow(&self, over: &AtomicBool) {
        while !over.load(Ordering::SeqCst) {
            let seen = *self.told.lock();
            self.guest.tree.log.wait(seen);
            if self.tell(&mut self.told.lock()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, receiver: &mut Line) -> Result<(), Gone> {
        while let Some(frame) = receiver.receive()? {
            if frame.kind != FrameKind::Data {
                return Ok(());
            }
            let mut told = self.told.lock();
            self.tell(&mut told)?;
            self.line.reply(self.guest, &Reply::Done)?;
        }
        Ok(())
    }

    fn tell(&self, told: &mut usize) -> Result<(), Gone> {
        let changes = self.guest.tree.log.changes.lock()[*told..].to_vec();
        *told += changes.len();
        let events: Vec<WatchEvent> = changes.iter().filter_map(|change| self.event(change)).collect();
        if events.is_empty() { Ok(()) } else { self.line.reply(self.guest, &Reply::Changed(events)) }
    }

    fn event(&self, change: &Change) -> Option<WatchEvent> {
        let below = |path: &Path| {
            let below = path.strip_prefix(&self.root).ok().filter(|below| below.components().count() > 0)?;
            (self.recursive || below.components().count() == 1).then(|| ByteString::from(below))
        };
        let to = change.renamed_to.as_deref().and_then(below);
        match (below(&change.path), change.kind, to) {
            (Some(path), WatchKind::Renamed, None) => {
                let moved_away = Some(true);
                Some(WatchEvent { kind: WatchKind::Removed, path, renamed_to: None, moved_away })
            }
            (Some(path), kind, renamed_to) => Some(WatchEvent { kind, path, renamed_to, moved_away: None }),
            (None, WatchKind::Renamed, Some(path)) => {
                Some(WatchEvent { kind: WatchKind::Created, path, renamed_to: None, moved_away: None })
            }
            (None, ..) => None,
        }
    }
}

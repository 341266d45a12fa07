//! Watching a directory, or a whole tree, for changes.
//!
//! inotify watches single directories, so a tree is watched by watching each of its directories and
//! by adding those that appear. A directory is watched first and read after: what is made in
//! between shows up twice, once read and once as an event, and the event is left out.

mod batch;
mod tree;

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags};
use rustix::io::Errno;
use warren_wire::guest::{FailureCode, FrameKind, Reply, WatchKind};

use super::Task;
use super::failure::{Stop, denied, invalid, refused};
use super::place::Place;
use batch::Batch;
use tree::Tree;

/// How long the second half of a rename is waited for. The kernel queues both halves together; only
/// a reader that is very quick sees the first alone.
const RENAME_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

pub(super) fn watch(task: &mut Task, place: &Place, recursive: bool) -> Result<(), Stop> {
    let failed = |errno| Stop::from(refused("watch", place.path(), errno));
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(failed)?;
    let mut tree = Tree::new(&inotify, place, recursive).map_err(failed)?;
    task.channel.reply(&Reply::Done)?;
    let mut batch = Batch::default();
    let mut buffer = vec![MaybeUninit::uninit(); 16 * 1024];
    let mut reader = inotify::Reader::new(&inotify, &mut buffer);
    let mut questions = 0;
    loop {
        // Taken before the events are, so that those tell all that happened before the question.
        questions += count_questions(task)?;
        let drained = collect(&mut reader, &mut tree, &mut batch, place)?;
        if drained && batch.awaits_rename() && readable(&inotify, Some(&RENAME_WAIT)) {
            continue;
        }
        tree.forget(&batch.settle());
        if drained {
            tree.settle();
        }
        if tree.take_partial() {
            batch.push(WatchKind::Overflowed, Vec::new());
        }
        while let Some(events) = batch.take() {
            task.channel.reply(&Reply::Changed(events))?;
        }
        if !tree.root_exists() {
            return Err(denied(FailureCode::NotFound, "watch", place.path(), "the directory is gone").into());
        }
        if drained {
            for _ in 0..std::mem::take(&mut questions) {
                task.channel.reply(&Reply::Done)?;
            }
            wait(task, &inotify)?;
        }
    }
}

/// How often the host has asked whether everything is told, since this was last looked at.
fn count_questions(task: &mut Task) -> Result<u64, Stop> {
    let mut count = 0;
    while let Some(frame) = task.channel.receive_ready()? {
        if frame.kind != FrameKind::Data || !frame.payload.is_empty() {
            return Err(invalid("watch: only empty data may follow the request").into());
        }
        count += 1;
    }
    Ok(count)
}

/// Takes events until none are left or a batch is full; tells whether none are left.
fn collect(
    reader: &mut inotify::Reader<'_, &OwnedFd>,
    tree: &mut Tree<'_>,
    batch: &mut Batch,
    place: &Place,
) -> Result<bool, Stop> {
    while !batch.is_full() {
        let event = match reader.next() {
            Ok(event) => event,
            Err(Errno::AGAIN) => return Ok(true),
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(refused("watch", place.path(), errno).into()),
        };
        if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
            batch.push(WatchKind::Overflowed, Vec::new());
            tree.rescan();
            continue;
        }
        let name = event.file_name().map(|name| name.to_bytes().to_vec());
        match name {
            Some(name) => on_entry(
                tree,
                batch,
                &Change { wd: event.wd(), what: event.events(), cookie: event.cookie() },
                &name,
            ),
            None => tree.on_directory(event.wd(), event.events()),
        }
    }
    Ok(false)
}

/// An event of inotify about an entry.
struct Change {
    wd: i32,
    what: ReadFlags,
    cookie: u32,
}

fn on_entry(tree: &mut Tree<'_>, batch: &mut Batch, change: &Change, name: &[u8]) {
    let Some(path) = tree.path_of(change.wd, name) else { return tree.on_parent(change.wd) };
    let is_directory = change.what.contains(ReadFlags::ISDIR);
    if change.what.contains(ReadFlags::CREATE) {
        on_created(tree, batch, path, is_directory.then_some(Arrival::Made));
    } else if change.what.contains(ReadFlags::MOVED_FROM) {
        tree.was_found(&path);
        let watches = if is_directory { tree.watches_below(&path) } else { Vec::new() };
        batch.push_moved(path, change.cookie, watches);
    } else if change.what.contains(ReadFlags::MOVED_TO) {
        match batch.complete_rename(change.cookie, path.clone()) {
            Some((from, watches)) => tree.rename(&watches, &from, &path),
            None => on_created(tree, batch, path, is_directory.then_some(Arrival::Moved)),
        }
    } else if change.what.contains(ReadFlags::DELETE) {
        tree.was_found(&path);
        batch.push(WatchKind::Removed, path);
    } else if change.what.contains(ReadFlags::MODIFY) {
        batch.push(WatchKind::Written, path);
    } else if change.what.contains(ReadFlags::ATTRIB) {
        batch.push(WatchKind::AttributesChanged, path);
    }
}

/// How a directory came to be in the tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    Made,
    Moved,
}

/// Tells of an entry that has appeared; a directory is watched from now on, with what is in it
/// already. What holds bytes in a directory just made was written before it was watched.
fn on_created(tree: &mut Tree<'_>, batch: &mut Batch, path: Vec<u8>, directory: Option<Arrival>) {
    if tree.was_found(&path) {
        return;
    }
    batch.push(WatchKind::Created, path.clone());
    if let Some(arrival) = directory {
        tree.add(&path, |found| {
            batch.push(WatchKind::Created, found.path.clone());
            if arrival == Arrival::Made && found.holds_bytes {
                batch.push(WatchKind::Written, found.path);
            }
        });
    }
}

/// Waits for events or for the host, which may ask or close its side.
fn wait(task: &Task, inotify: &OwnedFd) -> Result<(), Stop> {
    let host = PollFlags::IN | PollFlags::RDHUP;
    let mut polled = [PollFd::new(inotify, PollFlags::IN), PollFd::new(task.channel.stream(), host)];
    loop {
        match rustix::event::poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(_) => return Err(Stop::Gone),
        }
    }
}

fn readable(inotify: &OwnedFd, timeout: Option<&Timespec>) -> bool {
    rustix::event::poll(&mut [PollFd::new(inotify, PollFlags::IN)], timeout).is_ok_and(|ready| ready > 0)
}

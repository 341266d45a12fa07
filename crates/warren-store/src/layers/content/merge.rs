//! Joins what two states made of a third. What theirs changed is walked; ours is asked what it made
//! of the same path.

mod decide;
mod lines;
mod target;

use std::path::{Path, PathBuf};

use warren_core::{
    Change, ChangeKind, Conflict, Conflicts, Entry, EntryKind, LayerError, Merge, MergeOrder, NewLayer,
    RootTree,
};

use super::build::Attributes;
use super::diff::{Compare, same};
use super::failure::invalid;
use super::left_out::{self, LeftOut};
use super::view::{Lookup, Node, View};
use crate::layers::LayerDirectory;
use decide::{Decision, FileMerge};
use target::Target;

/// More than is joined at once: the answer names every path.
const MOST_CHANGES: usize = 200_000;
/// Bytes of paths that the answer may have.
const MOST_PATH_BYTES: usize = 32 << 20;

pub(super) fn merge(
    store: &LayerDirectory,
    root: &[RootTree],
    order: &MergeOrder<'_>,
    into: Option<&NewLayer>,
) -> Result<Merge, LayerError> {
    let ours = View::open(store, root, order.ours)?;
    let target = match into {
        Some(_) => Some(Target::new(store, root, &ours)?),
        None => None,
    };
    let mut joining = Joining {
        store,
        root,
        order,
        ours: &ours,
        target,
        merge: Merge::default(),
        settled: None,
        made: Vec::new(),
        path_bytes: 0,
    };
    let below: PathBuf = order.below.components().collect();
    let mut has_arrived = below.parent().is_none_or(|parent| parent == Path::new("/"));
    let mut lookup = Lookup::new(&ours);
    let rules = left_out::rules_of(store, root, order.theirs, order.leave_out)?;
    let mut left_out = LeftOut::new(rules.as_ref(), &below, order.leave_out)?;
    Compare::open(store, root, order.base, order.theirs, &below)?.each(&mut |path, base, theirs| {
        let is_directory = theirs.or(base).is_some_and(Node::is_directory);
        if left_out.has(path, is_directory)? {
            return Ok(true);
        }
        if !has_arrived && theirs.is_some() {
            has_arrived = true;
            joining.make_way(&below)?;
        }
        joining.path(path, base, lookup.find(path)?.as_ref(), theirs)
    })?;
    let Joining { target, mut merge, .. } = joining;
    let settled = merge.conflicts.is_empty() || order.conflicts != Conflicts::Refuse;
    if let (Some(target), Some(layer)) = (target, into)
        && settled
        && !merge.changes.is_empty()
    {
        target.commit(layer)?;
        merge.made = true;
    }
    Ok(merge)
}

struct Joining<'a> {
    store: &'a LayerDirectory,
    root: &'a [RootTree],
    order: &'a MergeOrder<'a>,
    ours: &'a View,
    target: Option<Target<'a>>,
    merge: Merge,
    /// At and below this path all is decided.
    settled: Option<(PathBuf, Settled)>,
    /// Directories on the way to the current path that ours does not have, but the result has.
    made: Vec<PathBuf>,
    /// Of all paths that the answer names so far.
    path_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// It stays as ours has it.
    Kept,
    /// It goes.
    Gone,
}

impl Joining<'_> {
    /// Takes the directories around a path that theirs made. They are no change that was asked for,
    /// but without them nothing of it would have a place.
    fn make_way(&mut self, below: &Path) -> Result<(), LayerError> {
        let base = View::open(self.store, self.root, self.order.base)?;
        let theirs = View::open(self.store, self.root, self.order.theirs)?;
        let (mut base, mut ours, mut theirs) =
            (Lookup::new(&base), Lookup::new(self.ours), Lookup::new(&theirs));
        let mut around: Vec<&Path> = below.ancestors().skip(1).collect();
        around.reverse();
        for path in around {
            let theirs = theirs.find(path)?.filter(Node::is_directory);
            if base.find(path)?.is_none() && ours.find(path)?.is_none() {
                self.take(path, None, theirs.as_ref())?;
            }
        }
        Ok(())
    }

    /// One path that theirs changed. Answers true: there is always more to look at.
    fn path(
        &mut self,
        path: &Path,
        base: Option<&Node<'_>>,
        ours: Option<&Node<'_>>,
        theirs: Option<&Node<'_>>,
    ) -> Result<bool, LayerError> {
        match &self.settled {
            Some((above, Settled::Kept)) if path.starts_with(above) => return Ok(true),
            Some((above, Settled::Gone)) if path.starts_with(above) => {
                if let Some(ours) = ours {
                    self.changed(path, Some(ours.entry()), None)?;
                }
                return Ok(true);
            }
            _ => self.settled = None,
        }
        self.made.retain(|directory| path.starts_with(directory));
        match decide::decide(base, ours, theirs)? {
            Decision::Nothing => {}
            Decision::Take => self.take_unless_below(path, base, ours, theirs)?,
            Decision::Attributes(attributes) => {
                if let (Some(ours), Some(theirs)) = (ours, theirs) {
                    if let Some(target) = &mut self.target {
                        target.directory(path, &attributes, false)?;
                    }
                    self.changed(path, Some(ours.entry()), Some(theirs.entry()))?;
                }
            }
            Decision::File(file) => {
                if let (Some(ours), Some(theirs)) = (ours, theirs) {
                    self.file(path, ours, theirs, &file)?;
                }
            }
            Decision::Conflict => self.conflict(path, base, ours, theirs)?,
        }
        Ok(true)
    }

    /// Takes theirs, which ours left alone, unless ours has changes below it or has lost the
    /// directory around it.
    fn take_unless_below(
        &mut self,
        path: &Path,
        base: Option<&Node<'_>>,
        ours: Option<&Node<'_>>,
        theirs: Option<&Node<'_>>,
    ) -> Result<(), LayerError> {
        let goes = base.is_some_and(Node::is_directory) && !theirs.is_some_and(Node::is_directory);
        if goes {
            let lost = self.changed_below(path)?;
            if !lost.is_empty() {
                self.merge.conflicts.extend(lost);
                return self.settle(path, ours, theirs);
            }
        }
        let homeless = theirs.is_some() && ours.is_none() && !self.has_parent(path)?;
        if homeless {
            let theirs_kind = kind(base, theirs);
            self.add_conflict(path, ChangeKind::Removed, theirs_kind);
            return self.settle(path, ours, theirs);
        }
        self.take(path, ours, theirs)
    }

    /// Our changes below a directory that theirs removes.
    fn changed_below(&self, path: &Path) -> Result<Vec<Conflict>, LayerError> {
        let (mut conflicts, mut path_bytes) = (Vec::new(), self.path_bytes);
        let MergeOrder { base, ours, .. } = self.order;
        let compare = Compare::open(self.store, self.root, base, ours, path)?;
        compare.each(&mut |path, before, after| {
            let ours = kind(before, after);
            // That ours has removed more of it is in theirs' sense.
            if ours != ChangeKind::Removed {
                conflicts.push(Conflict { path: path.to_owned(), ours, theirs: ChangeKind::Removed });
            }
            path_bytes += path.as_os_str().len();
            if path_bytes > MOST_PATH_BYTES {
                return Err(too_many());
            }
            Ok(self.merge.conflicts.len() + conflicts.len() < MOST_CHANGES)
        })?;
        Ok(conflicts)
    }

    fn has_parent(&self, path: &Path) -> Result<bool, LayerError> {
        let Some(parent) = path.parent() else { return Ok(true) };
        if self.made.iter().any(|made| made == parent) {
            return Ok(true);
        }
        Ok(!self.ours.directory(parent)?.is_empty())
    }

    fn conflict(
        &mut self,
        path: &Path,
        base: Option<&Node<'_>>,
        ours: Option<&Node<'_>>,
        theirs: Option<&Node<'_>>,
    ) -> Result<(), LayerError> {
        let kinds = (kind(base, ours), kind(base, theirs));
        self.add_conflict(path, kinds.0, kinds.1);
        let both_directories = [ours, theirs].iter().all(|node| node.is_some_and(Node::is_directory));
        if both_directories && self.order.conflicts != Conflicts::Theirs {
            // Only what describes them is in conflict. What is in them may still be joined.
            return Ok(());
        }
        self.settle(path, ours, theirs)
    }

    /// Does what was ordered for conflicts.
    fn settle(
        &mut self,
        path: &Path,
        ours: Option<&Node<'_>>,
        theirs: Option<&Node<'_>>,
    ) -> Result<(), LayerError> {
        if self.order.conflicts == Conflicts::Theirs {
            self.made.extend(path.parent().map(Path::to_owned));
            return self.take(path, ours, theirs);
        }
        self.settled = Some((path.to_owned(), Settled::Kept));
        Ok(())
    }

    fn take(
        &mut self,
        path: &Path,
        ours: Option<&Node<'_>>,
        theirs: Option<&Node<'_>>,
    ) -> Result<(), LayerError> {
        if let Some(target) = &mut self.target {
            match theirs {
                None if ours.is_none() => {}
                None => target.remove(path)?,
                Some(node) if node.is_directory() => {
                    let replaces = ours.is_some_and(|ours| !ours.is_directory());
                    target.directory(path, &Attributes::of(node)?, replaces)?;
                }
                Some(node) => target.put(path, node)?,
            }
        }
        if theirs.is_some_and(Node::is_directory) {
            self.made.push(path.to_owned());
        } else if ours.is_some_and(Node::is_directory) {
            self.settled = Some((path.to_owned(), Settled::Gone));
        }
        self.changed(path, ours.map(Node::entry), theirs.map(Node::entry))
    }

    fn file(
        &mut self,
        path: &Path,
        ours: &Node<'_>,
        theirs: &Node<'_>,
        file: &FileMerge,
    ) -> Result<(), LayerError> {
        if let Some(target) = &mut self.target {
            target.file(path, ours, theirs, file)?;
        }
        let after = Entry {
            kind: EntryKind::File,
            size: file.length(ours, theirs),
            mode: file.attributes.mode,
            uid: file.attributes.uid,
            gid: file.attributes.gid,
            mtime_unix_ms: file.attributes.modified.0.saturating_mul(1000)
                + file.attributes.modified.1 / 1_000_000,
        };
        self.changed(path, Some(ours.entry()), Some(after))
    }

    fn add_conflict(&mut self, path: &Path, ours: ChangeKind, theirs: ChangeKind) {
        self.path_bytes += path.as_os_str().len();
        self.merge.conflicts.push(Conflict { path: path.to_owned(), ours, theirs });
    }

    fn changed(
        &mut self,
        path: &Path,
        before: Option<Entry>,
        after: Option<Entry>,
    ) -> Result<(), LayerError> {
        if before.is_none() && after.is_none() {
            return Ok(());
        }
        self.path_bytes += path.as_os_str().len();
        if self.merge.changes.len() >= MOST_CHANGES || self.path_bytes > MOST_PATH_BYTES {
            return Err(too_many());
        }
        self.merge.changes.push(Change { path: path.to_owned(), before, after, text: None });
        Ok(())
    }
}

fn too_many() -> LayerError {
    let most = MOST_PATH_BYTES >> 20;
    invalid(format!(
        "more than {MOST_CHANGES} paths, or {most} MiB of them, differ: merge less at once, with `path`"
    ))
}

fn kind(base: Option<&Node<'_>>, side: Option<&Node<'_>>) -> ChangeKind {
    match (base, side) {
        (None, _) => ChangeKind::Added,
        (Some(_), None) => ChangeKind::Removed,
        (Some(_), Some(_)) => ChangeKind::Changed,
    }
}

fn same_or_absent(one: Option<&Node<'_>>, other: Option<&Node<'_>>) -> Result<bool, LayerError> {
    match (one, other) {
        (None, None) => Ok(true),
        (Some(one), Some(other)) => same(one, other),
        _ => Ok(false),
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;

//! Finds the content of a layer that turns the last copy into what the sandbox has now.
//!
//! | since the last copy | in the layer |
//! |---|---|
//! | a file is new or changed | its copy |
//! | a name vanished | a whiteout |
//! | a directory's own attributes changed | the directory; the last copy's entries show through |
//! | another directory has its name | all of it, opaque |
//! | a directory that lies below was renamed | everything is copied |
//!
//! A file that is copied comes with all of its names: two layers cannot share one file.

use std::collections::{BTreeMap, HashSet};

use super::stamps::{Kind, Path, Stamp, Stamps};

/// How an entry gets into the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A file, a link, a device, a removed name.
    Entry,
    /// A directory that the last copy does not have, with what overlayfs noted of it. `hide`: there
    /// is another of that name.
    Fresh { hide: bool },
    /// A directory that the last copy has.
    Known,
    /// A name that vanished.
    Vanished,
}

impl What {
    pub(super) fn is_directory(self) -> bool {
        matches!(self, Self::Fresh { .. } | Self::Known)
    }
}

/// The work for one path. A path that vanished has no stamp.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) what: What,
    pub(super) stamp: Option<Stamp>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) items: BTreeMap<Path, Item>,
    pub(super) bytes: u64,
}

impl Plan {
    /// To copy everything.
    pub(super) fn whole(now: &Stamps) -> Self {
        let mut plan = Self::default();
        for (path, stamp) in &now.entries {
            let what = if stamp.is_directory() { What::Fresh { hide: false } } else { What::Entry };
            plan.add(path, what, stamp);
        }
        plan
    }

    /// To copy what changed; `None` if it takes everything.
    pub(super) fn since(last: &Stamps, now: &Stamps) -> Option<Self> {
        let mut plan = Self::default();
        // Directories all of whose content is copied.
        let mut fresh: HashSet<&Path> = HashSet::new();
        for (path, stamp) in &now.entries {
            let parent = path.parent();
            let known = last.entries.get(path);
            if parent.is_none() && !known.is_some_and(|known| known.is_same_directory(stamp)) {
                return None;
            }
            let inside = parent.is_some_and(|parent| fresh.contains(&parent));
            let what = match known.filter(|_| !inside) {
                Some(known) if known.is(stamp) => continue,
                Some(known) if known.is_same_directory(stamp) => {
                    if marks(known) != marks(stamp) {
                        return None;
                    }
                    What::Known
                }
                known if stamp.is_directory() => {
                    if marks(stamp).1 {
                        return None;
                    }
                    fresh.insert(path);
                    What::Fresh { hide: known.is_some() }
                }
                _ => What::Entry,
            };
            plan.add(path, what, stamp);
        }
        plan.add_other_names(now);
        for path in last.entries.keys().filter(|path| !now.entries.contains_key(path)) {
            // With its directory, it went or was replaced.
            let remains = path.parent().is_some_and(|parent| {
                let (was, is) = (last.entries.get(&parent), now.entries.get(&parent));
                was.zip(is).is_some_and(|(was, is)| was.is_same_directory(is)) && !fresh.contains(&parent)
            });
            if remains {
                plan.items.insert(path.clone(), Item { what: What::Vanished, stamp: None });
            }
        }
        Some(plan)
    }

    /// Adds the names of files that are copied under another name. They look unchanged if only the
    /// other name's directory was moved.
    fn add_other_names(&mut self, now: &Stamps) {
        let is_file = |stamp: &Stamp| stamp.kind == Kind::Other;
        let copied = self.items.values().filter_map(|item| item.stamp).filter(is_file);
        let inodes: HashSet<u64> = copied.map(|stamp| stamp.inode).collect();
        for (path, stamp) in now.entries.iter().filter(|(_, stamp)| is_file(stamp)) {
            if inodes.contains(&stamp.inode) && !self.items.contains_key(path) {
                self.add(path, What::Entry, stamp);
            }
        }
    }

    fn add(&mut self, path: &Path, what: What, stamp: &Stamp) {
        self.bytes = self.bytes.saturating_add(stamp.bytes);
        self.items.insert(path.clone(), Item { what, stamp: Some(*stamp) });
    }

    /// True if something is to be made in a directory.
    pub(super) fn goes_into(&self, directory: &Path) -> bool {
        let first = directory.join(b"");
        self.items.range(&first..).next().is_some_and(|(path, _)| path.0.starts_with(&first.0))
    }
}

/// The marks of overlayfs on a directory: it is opaque, it was moved.
fn marks(stamp: &Stamp) -> (bool, bool) {
    match stamp.kind {
        Kind::Directory { opaque, moved, .. } => (opaque, moved),
        Kind::Whiteout | Kind::Other => (false, false),
    }
}

#[cfg(test)]
mod tests {
    use super::super::stamps::Moment;
    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment { seconds, nanoseconds: 0 }
    }

    fn file(inode: u64, changed: i64) -> Stamp {
        Stamp { kind: Kind::Other, inode, changed: at(changed), bytes: 10 }
    }

    fn directory(inode: u64, changed: i64) -> Stamp {
        let kind = Kind::Directory { born: Some(at(0)), opaque: false, moved: false };
        Stamp { kind, inode, changed: at(changed), bytes: 0 }
    }

    fn moved(inode: u64) -> Stamp {
        let kind = Kind::Directory { born: Some(at(0)), opaque: false, moved: true };
        Stamp { kind, ..directory(inode, 9) }
    }

    fn stamps(entries: &[(&str, Stamp)]) -> Stamps {
        let mut stamps = Stamps::new();
        stamps.entries.insert(Path(b"upper-0".to_vec()), directory(1, 0));
        for (path, stamp) in entries {
            stamps.entries.insert(Path(format!("upper-0/{path}").into_bytes()), *stamp);
        }
        stamps
    }

    fn planned(last: &[(&str, Stamp)], now: &[(&str, Stamp)]) -> Option<Vec<(String, What)>> {
        let plan = Plan::since(&stamps(last), &stamps(now))?;
        let name = |path: &Path| String::from_utf8_lossy(&path.0[b"upper-0/".len()..]).into_owned();
        Some(plan.items.iter().map(|(path, item)| (name(path), item.what)).collect())
    }

    fn items(expected: &[(&str, What)]) -> Option<Vec<(String, What)>> {
        Some(expected.iter().map(|(path, what)| ((*path).to_owned(), *what)).collect())
    }

    #[test]
    fn only_what_changed_is_copied() {
        let last = [("a", file(2, 1)), ("b", file(3, 1)), ("d", directory(4, 1)), ("d/e", file(5, 1))];
        assert_eq!(planned(&last, &last), items(&[]));
        let now = [("a", file(2, 2)), ("c", file(6, 1)), ("d", directory(4, 2)), ("d/e", file(5, 1))];
        let expected = [("a", What::Entry), ("b", What::Vanished), ("c", What::Entry), ("d", What::Known)];
        assert_eq!(planned(&last, &now), items(&expected));
    }

    #[test]
    fn a_directory_that_was_replaced_hides_the_other_and_is_copied_as_a_whole() {
        let last = [
            ("d", directory(4, 1)),
            ("d/sub", directory(5, 1)),
            ("d/sub/x", file(6, 1)),
            ("d/y", file(7, 1)),
        ];
        // What was in the old one was moved into the new one: the file in it looks as it did.
        let now = [
            ("d", directory(8, 2)),
            ("d.x", file(9, 1)),
            ("d/sub", directory(5, 2)),
            ("d/sub/x", file(6, 1)),
        ];
        let (over, new) = (What::Fresh { hide: true }, What::Fresh { hide: false });
        let expected = [("d", over), ("d.x", What::Entry), ("d/sub", new), ("d/sub/x", What::Entry)];
        assert_eq!(planned(&last, &now), items(&expected));
    }

    #[test]
    fn a_file_is_copied_with_all_of_its_names() {
        let last = [("d", directory(4, 1)), ("d/x", file(5, 1)), ("e", file(5, 1)), ("f", file(6, 1))];
        // The directory was moved, which its files do not show.
        let now = [("e", file(5, 1)), ("f", file(6, 1)), ("g", directory(4, 1)), ("g/x", file(5, 1))];
        let fresh = What::Fresh { hide: false };
        let expected = [("d", What::Vanished), ("e", What::Entry), ("g", fresh), ("g/x", What::Entry)];
        assert_eq!(planned(&last, &now), items(&expected));
    }

    #[test]
    fn a_directory_from_below_that_was_renamed_takes_everything() {
        assert_eq!(planned(&[], &[("new", moved(4))]), None);
        assert_eq!(planned(&[("d", directory(4, 1))], &[("d", moved(4))]), None);
        assert_eq!(
            planned(&[("d", moved(4))], &[("d", moved(4)), ("f", file(5, 1))]),
            items(&[("f", What::Entry)])
        );
    }

    #[test]
    fn another_upper_directory_takes_everything() {
        let mut now = stamps(&[]);
        now.entries.insert(Path(b"upper-0".to_vec()), directory(2, 0));
        assert!(Plan::since(&stamps(&[]), &now).is_none());
    }

    #[test]
    fn removed_names_are_not_told_apart() {
        let gone = |inode, changed| Stamp { kind: Kind::Whiteout, ..file(inode, changed) };
        assert_eq!(planned(&[("a", gone(2, 1))], &[("a", gone(3, 2))]), items(&[]));
        assert_eq!(planned(&[("a", file(2, 1))], &[("a", gone(3, 2))]), items(&[("a", What::Entry)]));
    }
}

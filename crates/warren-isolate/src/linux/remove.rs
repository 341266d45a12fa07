//! Removing a tree that sandbox code filled: any depth, any names, no link followed, a handful of
//! descriptors.
//!
//! A directory that is not empty is moved to the top of the tree and emptied there, so the walk is
//! never deeper than one level.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// Empties a directory, calls `last`, then removes the directory itself. Returns whether it is
/// gone.
pub(crate) fn remove_tree(path: &Path, last: impl FnOnce()) -> bool {
    match open_directory(CWD, path) {
        Err(Errno::NOENT) => {
            last();
            true
        }
        Ok(top) => {
            let emptied = empty(&top).is_ok();
            if emptied {
                last();
            }
            emptied && rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR).is_ok()
        }
        Err(_) => false,
    }
}

/// Removes all that is in a directory.
pub(crate) fn empty(top: &OwnedFd) -> Result<(), Errno> {
    let mut full = clear(top, |_| Ok(None))?;
    let mut number: u64 = 0;
    while let Some(name) = full.pop() {
        let directory = open_directory(top, &name)?;
        let moved = clear(&directory, |name| move_up(&directory, name, top, &mut number).map(Some))?;
        full.extend(moved);
        rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Moves a directory to the top, under a name that nothing there has.
fn move_up(directory: &OwnedFd, name: &CStr, top: &OwnedFd, number: &mut u64) -> Result<CString, Errno> {
    loop {
        *number += 1;
        let target = CString::new(format!("removing-{number}")).unwrap_or_default();
        match rustix::fs::renameat_with(directory, name, top, &target, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST | Errno::NOTEMPTY) => {}
            answer => return answer.map(|()| target),
        }
    }
}

/// Removes every entry of a directory. A directory with content is given to `move_away`, which
/// returns its new name at the top, or nothing if it stays. Returns the names of all of those.
fn clear(
    directory: &OwnedFd,
    mut move_away: impl FnMut(&CStr) -> Result<Option<CString>, Errno>,
) -> Result<Vec<CString>, Errno> {
    let mut full = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entry.file_type() != FileType::Directory {
            match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
                // Some file systems do not tell the type.
                Err(Errno::ISDIR) => {}
                answer => {
                    answer?;
                    continue;
                }
            }
        }
        match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                full.push(move_away(name)?.unwrap_or_else(|| name.to_owned()));
            }
            answer => answer?,
        }
    }
    Ok(full)
}

fn open_directory(at: impl AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_tree_goes_whatever_it_holds_and_links_stay_links() {
        let place = tempfile::tempdir().unwrap();
        let canary = place.path().join("canary");
        fs::create_dir_all(canary.join("inside")).unwrap();
        let tree = place.path().join("tree");
        fs::create_dir_all(tree.join("a/b/c/removing-1/d")).unwrap();
        fs::create_dir_all(tree.join("removing-1/x")).unwrap();
        fs::write(tree.join("a/b/file"), "x").unwrap();
        symlink(&canary, tree.join("a/link")).unwrap();
        let mut done = false;
        assert!(remove_tree(&tree, || done = true));
        assert!(done && !tree.exists() && canary.join("inside").exists());
        assert!(remove_tree(&tree, || {}), "a tree that is gone is removed");
    }

    #[test]
    fn depth_does_not_matter() {
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut here = open_directory(CWD, &tree).unwrap();
        for _ in 0..20_000 {
            rustix::fs::mkdirat(&here, "d", Mode::from_raw_mode(0o700)).unwrap();
            here = open_directory(&here, "d").unwrap();
        }
        drop(here);
        assert!(remove_tree(&tree, || {}));
    }
}

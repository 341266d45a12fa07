//! The mounts of a sandbox, read from its own mount table.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

pub(super) type MountId = u64;

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    id: MountId,
    parent: MountId,
    pub(super) at: PathBuf,
    overlay: bool,
    writable: bool,
}

/// A mount table.
#[derive(Debug)]
pub(in crate::linux) struct Mounts(Vec<Mount>);

/// A mount on top of the root that the sandbox's processes do not see.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) id: MountId,
    /// Mounts on the cover that are missing on the root, outer ones first.
    pub(super) moved: Vec<PathBuf>,
}

impl Mounts {
    /// The table of a process. Only this backend mounts anything there.
    pub(in crate::linux) fn of(pid: u32) -> io::Result<Self> {
        let text = read_kernel_file(&format!("/proc/{pid}/mountinfo"))?;
        parse(&text)
            .map(Self)
            .ok_or_else(|| io::Error::other("the mount table of the sandbox cannot be read"))
    }

    pub(super) fn is_overlay(&self, id: MountId) -> bool {
        self.0.iter().any(|mount| mount.id == id && mount.overlay)
    }

    /// True if something is mounted there that can be written to.
    pub(in crate::linux) fn is_writable(&self, at: &Path) -> bool {
        self.0.iter().any(|mount| mount.at == at && mount.writable)
    }

    /// True if something is mounted below this directory.
    pub(in crate::linux) fn has_below(&self, at: &Path) -> bool {
        self.0.iter().any(|mount| mount.at != at && mount.at.starts_with(at))
    }

    /// The topmost mount that covers the root. Only an interrupted exchange of roots leaves one.
    pub(super) fn cover(&self) -> Option<Cover> {
        let root = self.0.iter().find(|mount| {
            mount.at == Path::new("/") && !self.0.iter().any(|other| other.id == mount.parent)
        })?;
        let mut covers = vec![root.id];
        while let Some(next) =
            self.0.iter().find(|mount| mount.at == Path::new("/") && covers.last() == Some(&mount.parent))
        {
            covers.push(next.id);
        }
        let id = covers.pop().filter(|_| !covers.is_empty())?;
        let own = self.below(root.id, |mount| mount.at != Path::new("/"));
        let is_both = |mount: &Mount| own.iter().any(|own| own.at == mount.at);
        let found = self.below(id, is_both);
        let moved = found.into_iter().filter(|mount| !is_both(mount)).map(|mount| mount.at.clone()).collect();
        Some(Cover { id, moved })
    }

    /// The mounts on this one, and those on each of them that `enter` says yes to.
    fn below(&self, id: MountId, enter: impl Fn(&Mount) -> bool) -> Vec<&Mount> {
        let mut found: Vec<&Mount> = Vec::new();
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            let on_it: Vec<&Mount> = self.0.iter().filter(|mount| mount.parent == id).collect();
            waiting.extend(on_it.iter().filter(|mount| enter(mount)).map(|mount| mount.id));
            found.extend(on_it);
        }
        found
    }

    /// The mounts that move when the trees at these places are exchanged, outer ones first: those
    /// directly on one of the trees.
    pub(super) fn standing_on(&self, exchanged: &[PathBuf]) -> Vec<&Path> {
        let is_exchanged = |mount: &Mount| mount.overlay && exchanged.contains(&mount.at);
        let trees: Vec<MountId> = self.0.iter().filter(|m| is_exchanged(m)).map(|mount| mount.id).collect();
        let stands = |mount: &&Mount| trees.contains(&mount.parent) && !is_exchanged(mount);
        self.0.iter().filter(stands).map(|mount| mount.at.as_path()).collect()
    }
}

/// Reads a file whose size the kernel does not tell, with room for most of them from the start.
pub(super) fn read_kernel_file(path: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(16 << 10);
    fs::File::open(path)?.read_to_end(&mut text)?;
    Ok(text)
}

fn parse(text: &[u8]) -> Option<Vec<Mount>> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let at = unescape(fields.nth(2)?)?;
    let writable = fields.next()?.split(|byte| *byte == b',').all(|option| option != b"ro");
    // A dash comes after any number of optional fields.
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    Some(Mount { id, parent, at, overlay: rest.next()? == b"overlay", writable })
}

/// Spaces and the like are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        if *first == b'\\' {
            let digits = std::str::from_utf8(after.get(..3)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 8).ok()?);
            rest = after.get(3..)?;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
100 50 0:30 / / rw - overlay overlay rw
101 100 0:31 / /usr rw - overlay overlay rw
102 100 0:32 / /proc rw shared:1 - proc proc rw
103 102 0:33 / /proc/meminfo ro - tmpfs tmpfs rw
104 101 8:1 /x /usr/with\\040space ro - ext4 /dev/sda rw
";

    #[test]
    fn what_stands_on_an_exchanged_tree_moves_and_takes_the_rest_along() {
        let mounts = Mounts(parse(TABLE).unwrap());
        let (root, usr) = (PathBuf::from("/"), PathBuf::from("/usr"));
        assert_eq!(mounts.standing_on(std::slice::from_ref(&root)), [Path::new("/usr"), Path::new("/proc")]);
        assert_eq!(mounts.standing_on(&[root, usr]), [Path::new("/proc"), Path::new("/usr/with space")]);
        assert!(mounts.is_overlay(101) && !mounts.is_overlay(102) && !mounts.is_overlay(7));
    }

    #[test]
    fn what_a_broken_exchange_left_on_the_root_is_told_from_what_it_took_there() {
        assert_eq!(Mounts(parse(TABLE).unwrap()).cover(), None);
        let begun = b"\
100 50 0:30 / / rw - overlay overlay rw
101 100 0:31 / /usr rw - overlay overlay rw
102 100 0:32 / /proc rw - proc proc rw
103 102 0:33 / /proc/meminfo ro - tmpfs tmpfs rw
200 100 0:40 / / rw - overlay overlay rw
201 200 0:41 / /usr rw - overlay overlay rw
105 200 0:35 / /dev rw - tmpfs tmpfs rw
106 105 0:36 / /dev/pts rw - devpts devpts rw
104 201 8:1 /x /usr/shared ro - ext4 /dev/sda rw
";
        let moved = vec![PathBuf::from("/dev"), PathBuf::from("/usr/shared")];
        assert_eq!(Mounts(parse(begun).unwrap()).cover(), Some(Cover { id: 200, moved }));
        let twice =
            [TABLE, b"200 100 0:40 / / rw - overlay overlay rw\n300 200 0:50 / / rw - overlay o rw\n"]
                .concat();
        assert_eq!(Mounts(parse(&twice).unwrap()).cover(), Some(Cover { id: 300, moved: Vec::new() }));
    }

    #[test]
    fn a_table_that_makes_no_sense_is_refused() {
        assert!(parse(b"1 x 0:30 / / rw - overlay overlay rw").is_none());
        assert!(parse(b"1 2 0:30 / /a\\9 rw - overlay overlay rw").is_none());
        assert!(parse(b"1 2 0:30 / / rw").is_none());
    }
}

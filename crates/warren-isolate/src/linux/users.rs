//! The ids of a user, looked up in a template by name. Only mounts need them on the host's side;
//! the agent looks up the users of processes inside.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use warren_core::RootTree;

const MOST_BYTES: u64 = 4 << 20;
/// How often a path is tried again that the kernel gave up on.
const RESOLVE_ATTEMPTS: usize = 256;

/// The user is not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum UserError {
    #[error("the template has no user `{0}`")]
    Unknown(String),
    #[error("read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
}

/// User and group of `name`, `uid` or `uid:gid`; of root if absent.
pub(super) fn ids(root: &[RootTree], user: Option<&str>) -> Result<(u32, u32), UserError> {
    let Some(user) = user else { return Ok((0, 0)) };
    let unknown = || UserError::Unknown(user.to_owned());
    let (name, group) = user.split_once(':').map_or((user, None), |(name, group)| (name, Some(group)));
    let found = match name.parse::<u32>() {
        Ok(uid) => (uid, if uid == 0 { 0 } else { uid }),
        Err(_) => lookup(root, name)?.ok_or_else(unknown)?,
    };
    match group {
        None => Ok(found),
        Some(group) => Ok((found.0, group.parse().map_err(|_| unknown())?)),
    }
}

fn lookup(root: &[RootTree], name: &str) -> Result<Option<(u32, u32)>, UserError> {
    let Some(top) = root.first() else { return Ok(None) };
    for lower in &top.lowers {
        let text = match read_in(lower, "etc/passwd") {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(UserError::Read { path: lower.join("etc/passwd"), source }),
        };
        return Ok(text.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(name)).then_some(())?;
            let uid = fields.nth(1)?.parse().ok()?;
            Some((uid, fields.next()?.parse().ok()?))
        }));
    }
    Ok(None)
}

/// Reads a regular file of a template, with every link resolved inside it.
fn read_in(root: &Path, path: &str) -> io::Result<String> {
    let top = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    // The kernel gives up on a link with `..` when anything is renamed or mounted meanwhile.
    let mut attempt = 0;
    let file = loop {
        match rustix::fs::openat2(&top, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if attempt < RESOLVE_ATTEMPTS => attempt += 1,
            result => break fs::File::from(result?),
        }
    };
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

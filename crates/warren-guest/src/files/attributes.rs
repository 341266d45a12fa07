//! Extended attributes, told and set by the beginning of their names.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use warren_wire::guest::{Attribute, ByteString, Failure, FailureCode};

use super::entry::file_type;
use super::failure::{denied, refused};
use super::place::Place;

/// The kernel's own limits on a list of names and on one value.
const KERNEL_BYTES: usize = 64 * 1024;

/// The most bytes of attributes for one entry; the rest is left out, so that an entry fits a frame.
const TOLD_BYTES: usize = 32 * 1024;

const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The attributes of the file or directory `name`, itself no link, whose names begin with `prefix`.
/// None where the file may not be read or its file system has none.
pub(super) fn tell(directory: impl AsFd, name: impl Arg, prefix: &ByteString) -> Vec<Attribute> {
    let opened = rustix::fs::openat(directory, name, LOOK | OFlags::NOFOLLOW, Mode::empty());
    let Ok(file) = opened else { return Vec::new() };
    let names = names(&file, prefix).unwrap_or_default();
    let mut left = TOLD_BYTES;
    let mut attributes = Vec::new();
    let mut value = vec![0; TOLD_BYTES];
    for name in names {
        // One that is gone again, or too large to tell.
        let Ok(count) = rustix::fs::fgetxattr(&file, OsStr::from_bytes(&name), &mut *value) else { continue };
        let Some(rest) = left.checked_sub(name.len() + count) else { break };
        left = rest;
        attributes.push(Attribute { name: name.into(), value: value[..count].to_vec().into() });
    }
    attributes
}

/// Makes `attributes` the only ones whose names begin with `prefix`.
pub(super) fn set(place: &Place, prefix: &ByteString, attributes: &[Attribute]) -> Result<(), Failure> {
    check(place, prefix, attributes)?;
    let failed = |errno| match errno {
        Errno::OPNOTSUPP => {
            denied(FailureCode::Unsupported, ACTION, place.path(), "its file system has no such attributes")
        }
        errno => refused(ACTION, place.path(), errno),
    };
    let file = open(place)?;
    for name in names(&file, prefix).map_err(failed)? {
        if attributes.iter().any(|kept| kept.name.as_bytes() == name) {
            continue;
        }
        match rustix::fs::fremovexattr(&file, OsStr::from_bytes(&name)) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    for Attribute { name, value } in attributes {
        let name = name.as_path();
        rustix::fs::fsetxattr(&file, name, value.as_bytes(), XattrFlags::empty()).map_err(failed)?;
    }
    Ok(())
}

const ACTION: &str = "set attributes of";

fn check(place: &Place, prefix: &ByteString, attributes: &[Attribute]) -> Result<(), Failure> {
    let refuse = |reason: &str| Err(denied(FailureCode::Invalid, ACTION, place.path(), reason));
    if prefix.is_empty() {
        return refuse("the prefix is empty");
    }
    let named = |attribute: &Attribute| attribute.name.as_bytes().starts_with(prefix.as_bytes());
    if !attributes.iter().all(named) {
        return refuse("a name does not begin with the prefix");
    }
    if attributes.iter().any(|attribute| attribute.name.as_bytes().contains(&0)) {
        return refuse("a name contains a NUL byte");
    }
    Ok(())
}

/// Only files and directories: opening a device acts on it.
fn open(place: &Place) -> Result<OwnedFd, Failure> {
    let failed = |errno| refused(ACTION, place.path(), errno);
    match file_type(&rustix::fs::stat(place.path()).map_err(failed)?) {
        FileType::RegularFile | FileType::Directory => {}
        _ => {
            let reason = "it is neither a file nor a directory";
            return Err(denied(FailureCode::WrongKind, ACTION, place.path(), reason));
        }
    }
    rustix::fs::open(place.path(), LOOK, Mode::empty()).map_err(failed)
}

fn names(file: &OwnedFd, prefix: &ByteString) -> Result<Vec<Vec<u8>>, Errno> {
    let mut list = vec![0; KERNEL_BYTES];
    let count = rustix::fs::flistxattr(file, &mut *list)?;
    let names = list[..count].split_inclusive(|byte| *byte == 0);
    let names = names.filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    Ok(names
        .map(|name| name.to_bytes().to_vec())
        .filter(|name| name.starts_with(prefix.as_bytes()))
        .collect())
}

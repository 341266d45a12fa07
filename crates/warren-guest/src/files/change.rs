//! The operations that are a system call or two.

use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use warren_wire::guest::{ByteString, Failure, FailureCode};

use super::failure::{denied, refused};
use super::place::{
    DIRECTORY_PERMISSIONS, Place, check_permissions, give_at, make_directories, make_directory_at, open_path,
};
use super::rights::NewOwner;
use crate::identity;

pub(super) fn make_directory(
    place: &Place,
    permissions: Option<u32>,
    parents: bool,
    new_owner: Option<NewOwner>,
) -> Result<(), Failure> {
    let action = "make directory";
    let bits = check_permissions(action, place, permissions.unwrap_or(DIRECTORY_PERMISSIONS))?;
    let made = match place.split() {
        _ if parents => make_directories(place.path(), bits, new_owner),
        Some((parent, name)) => {
            open_path(parent).and_then(|parent| make_directory_at(&parent, name, bits, new_owner))
        }
        None => Err(Errno::EXIST),
    };
    made.map_err(|errno| refused(action, place.path(), errno))
}

pub(super) fn rename(from: &Place, to: &Place) -> Result<(), Failure> {
    let action = format!("rename `{}` to", from.path().display());
    rustix::fs::rename(from.path(), to.path()).map_err(|errno| refused(&action, to.path(), errno))
}

pub(super) fn set_permissions(place: &Place, permissions: u32) -> Result<(), Failure> {
    let action = "set permissions of";
    let bits = check_permissions(action, place, permissions)?;
    rustix::fs::chmod(place.path(), Mode::from_raw_mode(bits))
        .map_err(|errno| refused(action, place.path(), errno))
}

pub(super) fn set_owner(place: &Place, owner: &ByteString) -> Result<(), Failure> {
    let (uid, gid) = identity::resolve_owner(owner)?;
    rustix::fs::chown(place.path(), Some(Uid::from_raw(uid)), gid.map(Gid::from_raw))
        .map_err(|errno| refused("set owner of", place.path(), errno))
}

pub(super) fn make_symlink(
    place: &Place,
    target: &ByteString,
    new_owner: Option<NewOwner>,
) -> Result<(), Failure> {
    let action = "make symbolic link";
    if target.is_empty() || target.as_bytes().contains(&0) {
        return Err(denied(
            FailureCode::Invalid,
            action,
            place.path(),
            "the target is empty or contains a NUL byte",
        ));
    }
    rustix::fs::symlinkat(target.as_path(), CWD, place.path())
        .and_then(|()| give_at(CWD, place.path(), new_owner))
        .map_err(|errno| refused(action, place.path(), errno))
}

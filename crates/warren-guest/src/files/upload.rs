//! A file while its content arrives: where the bytes go, and what makes them the file's content.

use std::ffi::{OsStr, OsString};
use std::hash::BuildHasher;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, StatxAttributes, StatxFlags, Uid};
use rustix::io::Errno;
use warren_wire::guest::{Failure, FailureCode};

use super::failure::{denied, refused};
use super::place::{Place, open_path};
use super::read::{expect_regular, open_regular};
use super::rights::NewOwner;

/// The bytes that are held back for a file that can only be overwritten in place, so that a small
/// upload that breaks off leaves the old content. A larger one goes straight to the file.
const SPOOL_BYTES: usize = 4 * 1024 * 1024;

/// Attempts at a name nobody has taken.
const NAME_ATTEMPTS: usize = 16;

const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub(super) struct Upload {
    path: PathBuf,
    file: OwnedFd,
    plan: Plan,
    written: u64,
}

enum Plan {
    /// Renamed over `name` at the end.
    Replace {
        partial: Partial,
        name: OsString,
        permissions: u32,
        owner: Option<(u32, u32)>,
    },
    /// New under its own name.
    Create {
        partial: Partial,
        permissions: u32,
    },
    /// Straight to the file, at its end.
    Through,
    At {
        position: u64,
    },
    /// Overwrites the file itself; `None` once its old content is gone.
    InPlace {
        spool: Option<Vec<u8>>,
    },
}

/// The mode and owner of a file that has to be made.
#[derive(Clone, Copy)]
pub(super) struct New {
    pub(super) permissions: u32,
    pub(super) new_owner: Option<NewOwner>,
}

impl New {
    fn give(self, file: &OwnedFd) -> Result<(), Errno> {
        let Some(NewOwner { uid, gid }) = self.new_owner else { return Ok(()) };
        rustix::fs::fchown(file, Some(uid), Some(gid))
    }

    /// Its final bits and owner; the bits are left alone where they are right, so that nobody sees
    /// them change.
    fn settle(self, file: &OwnedFd) -> Result<(), Errno> {
        if rustix::fs::fstat(file)?.st_mode & 0o7777 != self.permissions {
            rustix::fs::fchmod(file, Mode::from_raw_mode(self.permissions))?;
        }
        self.give(file)
    }
}

/// A file that vanishes unless it is kept.
struct Partial {
    directory: OwnedFd,
    name: OsString,
    id: (u64, u64),
    kept: bool,
}

impl Upload {
    pub(super) fn replace(place: &Place, new: New, uid: u32) -> Result<Self, Failure> {
        let failed = |errno| refused("write", place.path(), errno);
        let (directory, name) = parent(place)?;
        let existing = match rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => {
                let (partial, file) = Partial::temporary(directory).map_err(failed)?;
                let permissions = new.permissions;
                let owner = new.new_owner.map(|new_owner| (new_owner.uid.as_raw(), new_owner.gid.as_raw()));
                return Ok(Self::new(place, file, Plan::Replace { partial, name, permissions, owner }));
            }
            Err(errno) => return Err(failed(errno)),
        };
        expect_regular("write", place, &existing)?;
        // Replacing takes no right to the file itself; writing does, so it is asked for.
        let in_place = match open_regular("write", place, OFlags::WRONLY | OFlags::NOFOLLOW) {
            Ok((file, _)) => Some(file),
            Err(failure) if failure.errno == Some(Errno::TXTBSY.raw_os_error()) => None,
            Err(failure) => return Err(failure),
        };
        let temporary = if is_fixed(&directory, &name, &existing, uid) {
            Err(Errno::BUSY)
        } else {
            Partial::temporary(directory)
        };
        match (temporary, in_place) {
            (Ok((partial, file)), _) => {
                let permissions = existing.st_mode & 0o7777;
                let owner = Some((existing.st_uid, existing.st_gid));
                Ok(Self::new(place, file, Plan::Replace { partial, name, permissions, owner }))
            }
            (Err(Errno::BUSY | Errno::ACCESS | Errno::PERM | Errno::ROFS), Some(file)) => {
                Ok(Self::new(place, file, Plan::InPlace { spool: Some(Vec::new()) }))
            }
            (Err(errno), _) => Err(failed(errno)),
        }
    }

    pub(super) fn create_new(place: &Place, new: New) -> Result<Self, Failure> {
        let failed = |errno| refused("write", place.path(), errno);
        let permissions = new.permissions;
        let (directory, name) = parent(place)?;
        let (partial, file) = Partial::create(directory, name, permissions).map_err(failed)?;
        new.give(&file).map_err(failed)?;
        Ok(Self::new(place, file, Plan::Create { partial, permissions }))
    }

    pub(super) fn append(place: &Place, new: New) -> Result<Self, Failure> {
        let (file, _) = open_or_create(place, new, OFlags::WRONLY | OFlags::APPEND)?;
        Ok(Self::new(place, file, Plan::Through))
    }

    pub(super) fn at(place: &Place, new: New, offset: u64) -> Result<Self, Failure> {
        if i64::try_from(offset).is_err() {
            return Err(denied(FailureCode::Invalid, "write", place.path(), "the offset is out of range"));
        }
        let (file, _) = open_or_create(place, new, OFlags::WRONLY)?;
        Ok(Self::new(place, file, Plan::At { position: offset }))
    }

    /// Makes or empties the file. A watcher of a small new file sees it made, given away and
    /// written, each once.
    pub(super) fn truncate(place: &Place, new: New) -> Result<Self, Failure> {
        let failed = |errno| refused("write", place.path(), errno);
        let (file, made) = open_or_create(place, new, OFlags::WRONLY)?;
        if !made {
            new.give(&file).map_err(failed)?;
            let size = rustix::fs::fstat(&file).map_err(failed)?.st_size;
            if size > 0 {
                rustix::fs::ftruncate(&file, 0).map_err(failed)?;
            }
        }
        Ok(Self::new(place, file, Plan::Through))
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.store(bytes).map_err(|errno| refused("write", &self.path, errno))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Makes what was written the file's content, and tells how much it was.
    pub(super) fn finish(mut self) -> Result<u64, Failure> {
        self.commit().map_err(|errno| refused("write", &self.path, errno))?;
        Ok(self.written)
    }

    fn new(place: &Place, file: OwnedFd, plan: Plan) -> Self {
        Self { path: place.path().to_owned(), file, plan, written: 0 }
    }

    fn store(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        match &mut self.plan {
            Plan::Replace { .. } | Plan::Create { .. } | Plan::Through | Plan::InPlace { spool: None } => {
                write_all(&self.file, bytes)
            }
            Plan::At { position } => write_all_at(&self.file, bytes, position),
            Plan::InPlace { spool: Some(spool) } if spool.len() + bytes.len() <= SPOOL_BYTES => {
                spool.extend_from_slice(bytes);
                Ok(())
            }
            Plan::InPlace { spool } => {
                spill(&self.file, spool)?;
                write_all(&self.file, bytes)
            }
        }
    }

    fn commit(&mut self) -> Result<(), Errno> {
        match &mut self.plan {
            Plan::Through | Plan::At { .. } => Ok(()),
            Plan::InPlace { spool } => spill(&self.file, spool),
            Plan::Create { partial, permissions } => {
                rustix::fs::fchmod(&self.file, Mode::from_raw_mode(*permissions))?;
                partial.kept = true;
                Ok(())
            }
            Plan::Replace { partial, name, permissions, owner } => {
                let kept = owner.is_none_or(|owner| keep_owner(&self.file, owner));
                // Set-id bits speak for the owner they were given by.
                let bits = if kept { *permissions } else { *permissions & 0o777 };
                rustix::fs::fchmod(&self.file, Mode::from_raw_mode(bits))?;
                rustix::fs::renameat(&partial.directory, &partial.name, &partial.directory, &*name)?;
                partial.kept = true;
                Ok(())
            }
        }
    }
}

impl Partial {
    /// A file under a name nobody can foresee, closed to others until it is complete.
    fn temporary(directory: OwnedFd) -> Result<(Self, OwnedFd), Errno> {
        let random = std::hash::RandomState::new();
        for attempt in 0..NAME_ATTEMPTS {
            let name = OsString::from(format!(".warren-{:016x}", random.hash_one(attempt)));
            match rustix::fs::openat(&directory, &name, NEW, Mode::RUSR | Mode::WUSR) {
                Ok(file) => return Self::of(directory, name, file),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    fn create(directory: OwnedFd, name: OsString, permissions: u32) -> Result<(Self, OwnedFd), Errno> {
        let file = rustix::fs::openat(&directory, &name, NEW, Mode::from_raw_mode(permissions & 0o777))?;
        Self::of(directory, name, file)
    }

    fn of(directory: OwnedFd, name: OsString, file: OwnedFd) -> Result<(Self, OwnedFd), Errno> {
        let stat = rustix::fs::fstat(&file)?;
        Ok((Self { directory, name, id: (stat.st_dev, stat.st_ino), kept: false }, file))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // The name may stand for something else by now, which is not ours to remove.
        let stat = rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if stat.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.id) {
            rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty()).ok();
        }
    }
}

fn parent(place: &Place) -> Result<(OwnedFd, OsString), Failure> {
    let directory = || denied(FailureCode::WrongKind, "write", place.path(), "it names a directory");
    let (parent, name) = place.split().filter(|_| !place.is_directory_name()).ok_or_else(directory)?;
    let parent = open_path(parent).map_err(|errno| refused("write", place.path(), errno))?;
    Ok((parent, name.to_owned()))
}

/// True if a rename over the file must fail although its directory can be written: it is a mount of
/// its own, or a sticky directory protects it.
fn is_fixed(directory: &OwnedFd, name: &OsStr, file: &Stat, uid: u32) -> bool {
    let attributes = rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty());
    if attributes.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
        return true;
    }
    let sticky =
        rustix::fs::fstat(directory).is_ok_and(|parent| parent.st_mode & 0o1000 != 0 && parent.st_uid != uid);
    sticky && uid != 0 && file.st_uid != uid
}

/// The file, and whether it was made.
fn open_or_create(place: &Place, new: New, access: OFlags) -> Result<(OwnedFd, bool), Failure> {
    match open_regular("write", place, access) {
        Err(failure) if failure.code == FailureCode::NotFound => {}
        opened => return opened.map(|(file, _)| (file, false)),
    }
    let (directory, name) = parent(place)?;
    let permissions = Mode::from_raw_mode(new.permissions & 0o777);
    match rustix::fs::openat(&directory, &name, NEW | access, permissions) {
        // Somebody else made it in between.
        Err(Errno::EXIST) => open_regular("write", place, access).map(|(file, _)| (file, false)),
        created => created
            .and_then(|file| new.settle(&file).map(|()| (file, true)))
            .map_err(|errno| refused("write", place.path(), errno)),
    }
}

/// Gives the new file to the owner of the old one, as far as the user may.
fn keep_owner(file: &OwnedFd, (uid, gid): (u32, u32)) -> bool {
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
    rustix::fs::fchown(file, None, Some(group)).is_ok() && {
        let own = rustix::fs::fstat(file).is_ok_and(|stat| stat.st_uid == uid);
        own || rustix::fs::fchown(file, Some(user), None).is_ok()
    }
}

/// Empties the file and writes what was held back.
fn spill(file: &OwnedFd, spool: &mut Option<Vec<u8>>) -> Result<(), Errno> {
    match spool.take() {
        Some(held) => {
            rustix::fs::ftruncate(file, 0)?;
            write_all(file, &held)
        }
        None => Ok(()),
    }
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn write_all_at(file: &OwnedFd, mut bytes: &[u8], position: &mut u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, *position) {
            Ok(count) => {
                bytes = &bytes[count..];
                *position += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

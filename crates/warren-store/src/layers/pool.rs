//! A btrfs of one's own, in a file beside the data directory, for machines that have none.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::btrfs;
use super::staging::DIRECTORY;

/// btrfs makes nothing smaller.
const SMALLEST: u64 = 128 << 20;
const MOST_COMPLAINT: usize = 500;

/// A pool could not be made or mounted.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    #[error("`{program}` is not installed: install the package `{package}`")]
    Missing { program: &'static str, package: &'static str },
    #[error("`{program}` failed for `{}`: {complaint}", pool.display())]
    Program { program: &'static str, pool: PathBuf, complaint: String },
    #[error("`{}` exists already: mount it, or remove it first", pool.display())]
    Exists { pool: PathBuf },
    #[error("`{}` is not there: `warren storage create` makes a pool", pool.display())]
    Absent { pool: PathBuf },
    #[error("a pool of {size} bytes is too small: btrfs needs at least {SMALLEST}")]
    TooSmall { size: u64 },
    #[error("`{}` is not empty, and a pool mounted on it would hide what is in it: move that away first", path.display())]
    NotEmpty { path: PathBuf },
    #[error("{action} `{}`", path.display())]
    Host { action: &'static str, path: PathBuf, source: io::Error },
}

/// The file that holds the pool of a data directory.
pub fn file(data_dir: &Path) -> PathBuf {
    let mut name = data_dir.as_os_str().to_owned();
    name.push(".pool");
    name.into()
}

/// Makes a pool of at most `size` bytes for a data directory that has nothing in it yet. It takes
/// room on the disk only as it fills.
pub fn create(data_dir: &Path, size: u64) -> Result<(), PoolError> {
    if size < SMALLEST {
        return Err(PoolError::TooSmall { size });
    }
    let formatter = program("mkfs.btrfs", "btrfs-progs")?;
    let pool = file(data_dir);
    if pool.exists() {
        return Err(PoolError::Exists { pool });
    }
    prepare(data_dir)?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&pool);
    let made = made.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => PoolError::Exists { pool: pool.clone() },
        _ => PoolError::Host { action: "make", path: pool.clone(), source },
    })?;
    let sized = made.set_len(size);
    let sized = sized.map_err(|source| PoolError::Host { action: "size", path: pool.clone(), source });
    let formatted =
        sized.and_then(|()| run("mkfs.btrfs", Command::new(formatter).arg("--quiet").arg(&pool), &pool));
    if formatted.is_err() {
        // The error tells what matters.
        drop(fs::remove_file(&pool));
    }
    formatted
}

/// Mounts the pool of a data directory on it, making that if need be. Says whether it was not
/// mounted already.
pub fn mount(data_dir: &Path) -> Result<bool, PoolError> {
    let host = |action| move |source| PoolError::Host { action, path: data_dir.to_owned(), source };
    let pool = file(data_dir);
    let opened = OpenOptions::new().read(true).open(&pool).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => PoolError::Absent { pool: pool.clone() },
        _ => PoolError::Host { action: "open", path: pool.clone(), source },
    })?;
    // Two who mount at once would do it twice.
    let locked = rustix::io::retry_on_intr(|| rustix::fs::flock(&opened, FlockOperation::LockExclusive));
    locked.map_err(|errno| PoolError::Host { action: "lock", path: pool.clone(), source: errno.into() })?;
    if data_dir.exists() && is_mounted(data_dir).map_err(host("look at"))? {
        return Ok(false);
    }
    prepare(data_dir)?;
    let mounter = program("mount", "mount")?;
    let mut command = Command::new(mounter);
    command.args(["-t", "btrfs", "-o", "loop,nosuid,nodev,noatime", "--"]).arg(&pool).arg(data_dir);
    let mode = fs::metadata(data_dir).map_err(host("look at"))?.permissions();
    run("mount", &mut command, &pool)?;
    // A new file system's root is open to all.
    fs::set_permissions(data_dir, mode).map_err(host("set the mode of"))?;
    Ok(true)
}

/// Makes the data directory, and insists that it is empty.
fn prepare(data_dir: &Path) -> Result<(), PoolError> {
    let host = |action| move |source| PoolError::Host { action, path: data_dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(host("make"))?;
    match fs::read_dir(data_dir).map_err(host("list"))?.next() {
        Some(_) => Err(PoolError::NotEmpty { path: data_dir.to_owned() }),
        None => Ok(()),
    }
}

/// A file system's abilities for snapshots, beyond those that all have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Files can share data.
    pub reflink: bool,
    /// It is btrfs, which has subvolumes.
    pub btrfs: bool,
}

/// The abilities of a directory's file system. Tries it with files that have no name.
pub fn abilities(directory: &Path) -> io::Result<Abilities> {
    let directory = rustix::fs::openat(CWD, directory, DIRECTORY, Mode::empty())?;
    let make = || {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        rustix::fs::openat(&directory, ".", flags, Mode::RUSR | Mode::WUSR)
    };
    let reflink = match make() {
        Ok(original) => super::copy::can_share_between(original.as_fd(), make()?.as_fd())?,
        // A file system without them has no reflinks either.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => false,
        Err(error) => return Err(error.into()),
    };
    Ok(Abilities { reflink, btrfs: btrfs::is_btrfs(directory.as_fd()) })
}

/// True if a btrfs is mounted on a data directory.
pub fn is_mounted(data_dir: &Path) -> io::Result<bool> {
    let stat = rustix::fs::statx(CWD, data_dir, AtFlags::empty(), StatxFlags::empty())?;
    let directory = rustix::fs::openat(CWD, data_dir, DIRECTORY, Mode::empty())?;
    Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) && btrfs::is_btrfs(directory.as_fd()))
}

/// Only the system's own directories: the program runs as the host's root.
fn program(name: &'static str, package: &'static str) -> Result<PathBuf, PoolError> {
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let found = places.iter().map(|place| Path::new(place).join(name)).find(|path| path.is_file());
    found.ok_or(PoolError::Missing { program: name, package })
}

fn run(program: &'static str, command: &mut Command, pool: &Path) -> Result<(), PoolError> {
    let output = command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| PoolError::Host { action: "start a program for", path: pool.to_owned(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = complaint.trim().chars().take(MOST_COMPLAINT).collect();
    Err(PoolError::Program { program, pool: pool.to_owned(), complaint })
}

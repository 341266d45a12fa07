//! A disk limit by a file system image of that size.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::MountAttrFlags;
use warren_core::Limits;

use super::{Area, QuotaError, QuotaKind, place};
use crate::linux::layers::mount_new;
use crate::linux::sys;

pub(crate) const FORMATTER: &str = "mkfs.ext4";
const CHECKER: &str = "e2fsck";

const BLOCK: u64 = 4096;
const INODE: u64 = 256;

pub(super) fn file(directory: &Path) -> PathBuf {
    directory.join("disk.img")
}

/// How long the kernel may take to release an image that is no longer mounted.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);

/// The formatter in the system's own directories: it runs as the host's root.
pub(super) fn formatter() -> Option<PathBuf> {
    program(FORMATTER)
}

fn program(name: &str) -> Option<PathBuf> {
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    places.iter().map(|place| Path::new(place).join(name)).find(|path| path.is_file())
}

pub(super) fn prepare(directory: &Path, limits: &Limits) -> Result<Area, QuotaError> {
    let image = file(directory);
    format(&image, limits)?;
    open(&image)
}

/// Opens an image that was used before. It has no journal, so it is checked and repaired first.
pub(super) fn reopen(directory: &Path) -> Result<Area, QuotaError> {
    let image = file(directory);
    wait_for_release(&image).map_err(place("wait for the release of", &image))?;
    check(&image)?;
    open(&image)
}

/// Another mount of an image, which a sandbox may have mounted too.
pub(super) fn view(directory: &Path) -> Result<OwnedFd, QuotaError> {
    let image = file(directory);
    let device = || attached(&image).map_err(place("find the loop device of", &image));
    let deadline = Instant::now() + RELEASE_PATIENCE;
    loop {
        let Some(found) = device()? else { return Ok(reopen(directory)?.mount) };
        // Its last user may just leave: then it clears itself, and may be given to another image.
        // One that is mounted stays what it is.
        let error = match mount(&found) {
            Ok(mount) if device()?.is_some_and(|now| now == found) => return Ok(mount),
            Ok(_) => io::ErrorKind::ResourceBusy.into(),
            Err(error) => error,
        };
        if Instant::now() > deadline {
            return Err(place("mount", &image)(error));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn open(image: &Path) -> Result<Area, QuotaError> {
    let backing = fs::OpenOptions::new().read(true).write(true).open(image).map_err(place("open", image))?;
    let device = attach(&backing).map_err(place("attach a loop device to", image))?;
    let mount = mount(&device.1).map_err(place("mount", image))?;
    Ok(Area::detached(mount, QuotaKind::Image))
}

/// Two devices on one image would destroy it, and a device clears itself some time after its last
/// use.
fn wait_for_release(image: &Path) -> io::Result<()> {
    let deadline = Instant::now() + RELEASE_PATIENCE;
    while attached(image)?.is_some() {
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The loop device that an image is attached to.
fn attached(image: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir("/sys/block")? {
        let entry = entry?;
        // A device that backs nothing has no such file.
        let backing = fs::read(entry.path().join("loop/backing_file")).unwrap_or_default();
        if backing.trim_ascii_end() == image.as_os_str().as_bytes() {
            return Ok(Some(Path::new("/dev").join(entry.file_name())));
        }
    }
    Ok(None)
}

/// Repairs an image. One that was unmounted properly is left as it is.
fn check(image: &Path) -> Result<(), QuotaError> {
    let program = program(CHECKER).ok_or(QuotaError::NoFormatter)?;
    let mut command = Command::new(program);
    command.arg("-y").arg(image).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().map_err(place("check", image))?;
    match output.status.code() {
        // Higher codes mean that errors are left.
        Some(0..=3) => Ok(()),
        _ => Err(QuotaError::Check(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Formats an image. The limit is the sandbox's own; the file system's tables come on top.
fn format(image: &Path, limits: &Limits) -> Result<(), QuotaError> {
    let program = formatter().ok_or(QuotaError::NoFormatter)?;
    let inodes = limits.inodes.min(limits.disk.0 / BLOCK).max(64);
    let tables = inodes * INODE + (limits.disk.0 / 64) + (1 << 20);
    let bytes = (limits.disk.0 + tables).next_multiple_of(BLOCK);
    fs::File::create_new(image).and_then(|file| file.set_len(bytes)).map_err(place("make", image))?;
    let mut command = Command::new(program);
    command.args(["-q", "-F", "-b", "4096", "-I", "256", "-m", "0", "-O", "^has_journal,^resize_inode"]);
    command
        .args(["-E", "lazy_itable_init=1,nodiscard,root_owner=0:0", "-N"])
        .arg(inodes.to_string())
        .arg(image);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().map_err(place("format", image))?;
    if output.status.success() {
        return Ok(());
    }
    Err(QuotaError::Format(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Binds a free loop device to the image. It clears itself after its last use, so a crash at any
/// moment leaks none.
fn attach(backing: &fs::File) -> io::Result<(OwnedFd, PathBuf)> {
    let control = fs::OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    for _ in 0..64 {
        let number = sys::free_loop_device(&control)?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = fs::OpenOptions::new().read(true).write(true).open(&path)?;
        match sys::configure_loop(&device, backing.as_raw_fd()) {
            Ok(()) => return Ok((device.into(), path)),
            // Another process was quicker.
            Err(rustix::io::Errno::BUSY) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

fn mount(device: &Path) -> io::Result<OwnedFd> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(mount_new("ext4", [("source", device)], flags)?)
}

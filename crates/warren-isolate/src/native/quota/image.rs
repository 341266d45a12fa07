//! A file system image of the size asked for.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};
use warren_core::Limits;

use super::{Area, QuotaError, QuotaKind};
use crate::native::sys;

pub(crate) const FORMATTER: &str = "mkfs.ext4";

const BLOCK: u64 = 4096;
const INODE: u64 = 256;

pub(super) fn file(directory: &Path) -> PathBuf {
    directory.join("disk.img")
}

/// Only the system's own directories: the program runs as the host's root.
pub(super) fn formatter() -> Option<PathBuf> {
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    places.iter().map(|place| Path::new(place).join(FORMATTER)).find(|path| path.is_file())
}

pub(super) fn prepare(directory: &Path, limits: &Limits) -> Result<Area, QuotaError> {
    let image = file(directory);
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| QuotaError::Place { action, path, source }
    };
    format(&image, limits)?;
    let backing =
        fs::OpenOptions::new().read(true).write(true).open(&image).map_err(failed("open", &image))?;
    let device = attach(&backing).map_err(failed("attach a loop device to", &image))?;
    let mount = mount(&device.1).map_err(failed("mount", &image))?;
    Ok(Area::detached(mount, QuotaKind::Image))
}

/// The limit is what the sandbox may fill; the file system's own tables come on top.
fn format(image: &Path, limits: &Limits) -> Result<(), QuotaError> {
    let program = formatter().ok_or(QuotaError::NoFormatter)?;
    let inodes = limits.inodes.min(limits.disk.0 / BLOCK).max(64);
    let tables = inodes * INODE + (limits.disk.0 / 64) + (1 << 20);
    let bytes = (limits.disk.0 + tables).next_multiple_of(BLOCK);
    let failed = |source| QuotaError::Place { action: "make", path: image.to_owned(), source };
    fs::File::create_new(image).and_then(|file| file.set_len(bytes)).map_err(failed)?;
    let mut command = Command::new(program);
    command.args(["-q", "-F", "-b", "4096", "-I", "256", "-m", "0", "-O", "^has_journal,^resize_inode"]);
    command
        .args(["-E", "lazy_itable_init=1,nodiscard,root_owner=0:0", "-N"])
        .arg(inodes.to_string())
        .arg(image);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(QuotaError::Format(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Finds a free loop device and binds it to the image. It clears itself when nothing uses it any more, so a crash at any
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
    let context = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", device)?;
    fsconfig_create(&context)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

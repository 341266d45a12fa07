use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::HostError;
use super::given::Given;
use super::packages;
use crate::digest::Digest;
use crate::tree;

/// Raise it when the generated part changes, so that every machine makes its skeleton anew.
const SKELETON_FORMAT: u32 = 5;

/// The parts of `/etc` that a sandbox gets: public configuration of the programs in `/usr`. Parents
/// are named with their children (`ssl/certs`, not `ssl`), because next to them lie private keys.
const ALLOWED: &[&str] = &[
    "ImageMagick-6",
    "ImageMagick-7",
    "OpenCL/vendors",
    "R/Makeconf",
    "R/Renviron",
    "R/ldpaths",
    "R/repositories",
    "X11/app-defaults",
    "X11/fonts",
    "X11/rgb.txt",
    "adduser.conf",
    "alsa/conf.d",
    "alternatives",
    "bash_completion",
    "bash_completion.d",
    "bindresvport.blacklist",
    "ca-certificates.conf",
    "chromium",
    "chromium.d",
    "crypto-policies",
    "debconf.conf",
    "debian_version",
    "debuginfod",
    "default/useradd",
    "deluser.conf",
    "dictionaries-common",
    "dpkg",
    "ethertypes",
    "fedora-release",
    "fonts",
    "gai.conf",
    "gdb",
    "glvnd",
    "gprofng.rc",
    "groff",
    "gss/mech.d",
    "gtk-2.0",
    "gtk-3.0",
    "host.conf",
    "inputrc",
    "iproute2",
    "issue",
    "issue.net",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "libaudit.conf",
    "libnl-3",
    "locale.alias",
    "locale.conf",
    "locale.gen",
    "localtime",
    "login.defs",
    "lsb-release",
    "lynx",
    "magic",
    "magic.mime",
    "mailcap.order",
    "man_db.conf",
    "manpath.config",
    "matplotlibrc",
    "mime.types",
    "mke2fs.conf",
    "mono",
    "nanorc",
    "netconfig",
    "networks",
    "openmpi",
    "os-release",
    "pam.conf",
    "pam.d",
    "papersize",
    "perl",
    "pki/ca-trust/extracted",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "protocols",
    "redhat-release",
    "rpc",
    "screenrc",
    "security/access.conf",
    "security/faillock.conf",
    "security/group.conf",
    "security/limits.conf",
    "security/namespace.conf",
    "security/pam_env.conf",
    "security/time.conf",
    "sensors3.conf",
    "services",
    "sgml",
    "ssl/certs",
    "ssl/openssl.cnf",
    "system-release",
    "terminfo",
    "texmf",
    "timezone",
    "tmux.conf",
    "ucf.conf",
    "vdpau_wrapper.cfg",
    "vim",
    "virc",
    "vulkan",
    "xattr.conf",
    "xdg",
    "xml",
];

/// As above, for names that carry a version.
const ALLOWED_PREFIXES: &[&str] = &["java-", "python3"];

/// Files within listed directories that change in place while their directory's own time stays.
const WATCHED: &[&str] = &["ssl/certs/ca-certificates.crt", "fonts/conf.d", "fonts/fonts.conf"];

/// Top-level links of a merged `/usr`; the first three are on every machine.
const MERGED: &[&str] = &["bin", "sbin", "lib", "lib64", "lib32", "libx32"];
const MERGED_ALWAYS: usize = 3;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The facts about the machine that the skeleton depends on.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) fingerprint: Digest,
    /// Top-level links and their targets.
    pub(super) links: Vec<(&'static str, Vec<u8>)>,
    /// The paths to copy, relative to `/etc`.
    pub(super) allowed: Vec<String>,
    pub(super) shell: &'static str,
    /// Where Python is, on a machine that knows it by no plainer name.
    pub(super) python: Option<&'static str>,
}

impl Survey {
    pub(super) fn of(machine: &Path, given: &Given) -> Result<Self, HostError> {
        let root = open(machine, machine)?;
        let etc = open(&machine.join("etc"), machine)?;
        let links = merged_links(root.as_fd(), machine)?;
        let allowed = allowed(etc.as_fd(), machine)?;
        let has_bash = rustix::fs::statat(&root, "usr/bin/bash", AtFlags::empty()).is_ok();
        let shell = if has_bash { "/bin/bash" } else { "/bin/sh" };
        let python = unnamed_python(root.as_fd());

        let mut hash = Sha256::new();
        hash.update(SKELETON_FORMAT.to_le_bytes());
        hash.update(shell);
        hash.update(python.unwrap_or_default());
        given.add_to(&mut hash);
        for (name, target) in &links {
            hash.update(name);
            hash.update(target);
        }
        for name in allowed.iter().map(String::as_str).chain(WATCHED.iter().copied()) {
            if let Ok(stat) = rustix::fs::statat(&etc, name, AtFlags::SYMLINK_NOFOLLOW) {
                add_stat(&mut hash, name, &stat);
            }
        }
        for name in packages::watched() {
            if let Ok(stat) = rustix::fs::statat(&root, name, AtFlags::SYMLINK_NOFOLLOW) {
                add_stat(&mut hash, name, &stat);
            }
        }
        Ok(Self { fingerprint: Digest::finish(hash), links, allowed, shell, python })
    }
}

/// The programs of many are written for `python`, which not every machine that has Python calls so.
fn unnamed_python(root: BorrowedFd<'_>) -> Option<&'static str> {
    let has = |path: &&str| rustix::fs::statat(root, &path[1..], AtFlags::empty()).is_ok();
    let named = ["/usr/local/bin/python", "/usr/bin/python"].iter().any(has);
    ["/usr/local/bin/python3", "/usr/bin/python3"].into_iter().find(has).filter(|_| !named)
}

/// Names the time since the kernel started. Read once by each process, for which it never changes.
pub(crate) fn boot() -> Result<String, HostError> {
    fs::read_to_string(BOOT_ID).map_err(|source| HostError::Survey { path: BOOT_ID.into(), source })
}

pub(super) fn add_stat(hash: &mut Sha256, name: &str, stat: &Stat) {
    hash.update(name);
    hash.update([0]);
    hash.update(stat.st_ino.to_le_bytes());
    hash.update(stat.st_size.to_le_bytes());
    hash.update(stat.st_mode.to_le_bytes());
    hash.update(stat.st_mtime.to_le_bytes());
    hash.update(stat.st_mtime_nsec.to_le_bytes());
}

pub(super) fn open(path: &Path, machine: &Path) -> Result<OwnedFd, HostError> {
    // The machine's root may be given as a link; its `/etc` may not be one.
    let nofollow = if path == machine { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | nofollow;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
        .map_err(|error| HostError::Survey { path: path.to_owned(), source: error.into() })
}

fn merged_links(root: BorrowedFd<'_>, machine: &Path) -> Result<Vec<(&'static str, Vec<u8>)>, HostError> {
    let mut links = Vec::new();
    for (index, &directory) in MERGED.iter().enumerate() {
        match rustix::fs::readlinkat(root, directory, Vec::new()) {
            Ok(target) if leads_into_usr(target.as_bytes()) => links.push((directory, target.into_bytes())),
            Ok(_) | Err(Errno::INVAL) => return Err(HostError::NotMerged { directory }),
            Err(Errno::NOENT) if index >= MERGED_ALWAYS => {}
            Err(error) => {
                return Err(HostError::Survey { path: machine.join(directory), source: error.into() });
            }
        }
    }
    Ok(links)
}

fn leads_into_usr(target: &[u8]) -> bool {
    let target = target.strip_prefix(b"/").unwrap_or(target);
    target.starts_with(b"usr/") && !target.split(|byte| *byte == b'/').any(|part| part == b"..")
}

fn allowed(etc: BorrowedFd<'_>, machine: &Path) -> Result<Vec<String>, HostError> {
    let names = tree::names(etc)
        .map_err(|source| HostError::Write { path: format!("{}/etc", machine.display()), source })?;
    let versioned = names
        .iter()
        .filter_map(|name| OsStr::from_bytes(name.as_bytes()).to_str())
        .filter(|name| ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    Ok(ALLOWED.iter().copied().chain(versioned).map(str::to_owned).collect())
}

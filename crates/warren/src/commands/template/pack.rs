//! A directory as the archive of a root file system, for a server that cannot see it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use tar::{EntryType, Header};

use crate::copying::pack::{Archive, Exactly, Failure, failure};
use crate::ui;

/// The bytes of a list of attributes, and of an attribute, that are taken.
const MOST_XATTR: usize = 64 << 10;

/// Packs a directory with owners, times, links and attributes. Other file systems below it,
/// devices and sockets are left out.
pub(super) fn root(archive: &mut Archive, source: &Path) -> Result<(), Failure> {
    let about = fs::metadata(source).map_err(|error| failure(source, error))?;
    let mut packer = RootPacker { archive, device: about.dev(), first: HashMap::new(), left_out: 0 };
    packer.directory(source, Path::new(""))?;
    if packer.left_out > 0 {
        ui::say(&format!("left out: {} devices, sockets and mounted file systems", packer.left_out));
    }
    Ok(())
}

struct RootPacker<'a> {
    archive: &'a mut Archive,
    device: u64,
    /// The first name of each file that has several.
    first: HashMap<u64, PathBuf>,
    left_out: u64,
}

impl RootPacker<'_> {
    fn directory(&mut self, source: &Path, name: &Path) -> Result<(), Failure> {
        for entry in fs::read_dir(source).map_err(|error| failure(source, error))? {
            let entry = entry.map_err(|error| failure(source, error))?;
            let (path, name) = (entry.path(), name.join(entry.file_name()));
            let about = fs::symlink_metadata(&path).map_err(|error| failure(&path, error))?;
            self.entry(&path, &name, &about).map_err(|error| failure(&path, error))?;
            if about.is_dir() && about.dev() == self.device {
                self.directory(&path, &name)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: &Path, about: &Metadata) -> io::Result<()> {
        let kind = about.file_type();
        if (!kind.is_dir() && about.dev() != self.device)
            || kind.is_socket()
            || kind.is_block_device()
            || kind.is_char_device()
        {
            self.left_out += 1;
            return Ok(());
        }
        let mut header = Header::new_gnu();
        header.set_metadata(about);
        if about.is_dir() {
            // Of a mounted file system its place alone.
            self.left_out += u64::from(about.dev() != self.device);
            self.attributes(path)?;
            return self.archive.append_data(&mut header, name, io::empty());
        }
        if let Some(first) = self.first.get(&about.ino()).cloned() {
            header.set_entry_type(EntryType::Link);
            header.set_size(0);
            return self.archive.append_link(&mut header, name, first);
        }
        if about.nlink() > 1 {
            self.first.insert(about.ino(), name.to_owned());
        }
        self.attributes(path)?;
        if kind.is_symlink() {
            header.set_size(0);
            return self.archive.append_link(&mut header, name, fs::read_link(path)?);
        }
        if kind.is_fifo() {
            return self.archive.append_data(&mut header, name, io::empty());
        }
        let file = File::open(path)?;
        self.archive.append_data(&mut header, name, Exactly::new(file, about.len()))
    }

    /// The attributes that mean something on another machine.
    fn attributes(&mut self, path: &Path) -> io::Result<()> {
        let mut list = vec![0; MOST_XATTR];
        let length = match rustix::fs::llistxattr(path, &mut list) {
            Ok(length) => length,
            Err(Errno::NOTSUP) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut kept = Vec::new();
        for name in list[..length].split(|byte| *byte == 0) {
            if !name.starts_with(b"user.") && name != b"security.capability" {
                continue;
            }
            let mut value = vec![0; MOST_XATTR];
            let name = OsString::from_vec(name.to_vec());
            let length = rustix::fs::lgetxattr(path, &name, &mut value)?;
            value.truncate(length);
            kept.push((format!("SCHILY.xattr.{}", name.to_string_lossy()), value));
        }
        if kept.is_empty() {
            return Ok(());
        }
        self.archive.append_pax_extensions(kept.iter().map(|(name, value)| (name.as_str(), value.as_slice())))
    }
}

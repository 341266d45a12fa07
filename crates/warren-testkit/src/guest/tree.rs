use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use warren_wire::guest::{
    Attribute, ByteString, EntryKind, Failure, FailureCode, FileEntry, WatchKind, WriteMode,
};

use super::calls::refuse;
use super::watch::Log;
use crate::delta::{Delta, Node, Nodes, Written};

/// The files of a fake sandbox. They outlive its processes, as on a disk.
#[derive(Debug)]
pub(crate) struct Tree {
    written: Mutex<Written>,
    /// Programs may write at any moment.
    lively: AtomicBool,
    /// How many bytes may be written.
    most_bytes: AtomicU64,
    /// Extended attributes by path. They are no part of what layers hold.
    attributes: Mutex<HashMap<PathBuf, Vec<Attribute>>>,
    /// All changes, for watches.
    pub(super) log: Log,
}

impl Tree {
    pub(crate) fn on(below: Nodes, upper: Delta) -> Self {
        Self::of(Written::on(below, upper))
    }

    /// A copy of the files, which holders of this one cannot change.
    pub(crate) fn at_rest(&self) -> Self {
        Self::of(self.written.lock().clone())
    }

    fn of(written: Written) -> Self {
        Self {
            written: Mutex::new(written),
            lively: AtomicBool::new(false),
            most_bytes: AtomicU64::new(u64::MAX),
            attributes: Mutex::default(),
            log: Log::default(),
        }
    }

    /// Sets the sandbox's disk limit.
    pub(crate) fn limit(&self, most_bytes: u64) {
        self.most_bytes.store(most_bytes, Ordering::SeqCst);
    }

    pub(crate) fn set_lively(&self, lively: bool) {
        self.lively.store(lively, Ordering::SeqCst);
    }

    pub(crate) fn is_lively(&self) -> bool {
        self.lively.load(Ordering::SeqCst)
    }

    /// The changes in the writable layer.
    pub(crate) fn upper(&self) -> Delta {
        self.written.lock().upper().clone()
    }

    /// The changes since an earlier delta.
    pub(crate) fn since(&self, earlier: &Delta) -> Delta {
        self.written.lock().since(earlier)
    }

    pub(crate) fn is_pristine(&self) -> bool {
        self.written.lock().upper().0.is_empty()
    }

    /// See [`Written::sink`].
    pub(crate) fn sink(&self) -> Delta {
        self.written.lock().sink()
    }

    /// See [`Written::clear`].
    pub(crate) fn clear(&self) {
        self.written.lock().clear();
    }

    /// The content of a file, read from outside.
    pub(crate) fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.written.lock().nodes().get(Path::new(path))?.content.clone()
    }

    pub(super) fn stat(&self, path: &ByteString) -> Result<FileEntry, Failure> {
        let path = absolute(path);
        let written = self.written.lock();
        let entry =
            written.nodes().get(&path).map(|node| entry(node, &path)).ok_or_else(|| missing(&path))?;
        Ok(FileEntry { attributes: self.attributes.lock().get(&path).cloned(), ..entry })
    }

    /// Replaces the attributes that begin with a prefix.
    pub(super) fn set_attributes(
        &self,
        path: &ByteString,
        prefix: &ByteString,
        new: Vec<Attribute>,
    ) -> Result<(), Failure> {
        let path = absolute(path);
        if !self.written.lock().nodes().contains_key(&path) {
            return Err(missing(&path));
        }
        let mut attributes = self.attributes.lock();
        let here = attributes.entry(path).or_default();
        here.retain(|attribute| !attribute.name.as_bytes().starts_with(prefix.as_bytes()));
        here.extend(new);
        Ok(())
    }

    pub(super) fn read(&self, path: &ByteString) -> Result<(FileEntry, Vec<u8>), Failure> {
        let path = absolute(path);
        let written = self.written.lock();
        let node = written.nodes().get(&path).ok_or_else(|| missing(&path))?;
        let content = node.content.clone().ok_or_else(|| wrong_kind(&path, "is a directory"))?;
        Ok((entry(node, &path), content))
    }

    /// Checks a write before its first byte has arrived.
    pub(super) fn may_write(&self, path: &ByteString, mode: WriteMode, parents: bool) -> Result<(), Failure> {
        let path = absolute(path);
        let written = self.written.lock();
        match written.nodes().get(&path) {
            Some(node) if node.content.is_none() => Err(wrong_kind(&path, "is a directory")),
            Some(_) if mode == WriteMode::CreateNew => Err(exists(&path)),
            _ if parents => Ok(()),
            _ => parent_exists(written.nodes(), &path),
        }
    }

    pub(super) fn write(
        &self,
        path: &ByteString,
        mode: WriteMode,
        permissions: Option<u32>,
        parents: bool,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        self.may_write(path, mode, parents)?;
        let path = absolute(path);
        let mut written = self.written.lock();
        let held = written.upper().bytes() + bytes.len() as u64;
        if held > self.most_bytes.load(Ordering::SeqCst) {
            return Err(refuse(FailureCode::Exhausted, "no space left on the device"));
        }
        make_parents(&mut written, &path)?;
        if !written.nodes().contains_key(&path) {
            self.log.note(&path, WatchKind::Created);
            self.log.note(&path, WatchKind::AttributesChanged);
        }
        self.log.note(&path, WatchKind::Written);
        let new = || Node { content: None, permissions: permissions.unwrap_or(0o644) };
        let mut node = written.nodes().get(&path).cloned().unwrap_or_else(new);
        let content = node.content.get_or_insert_default();
        match mode {
            WriteMode::Replace | WriteMode::CreateNew | WriteMode::Truncate => *content = bytes.to_vec(),
            WriteMode::Append => content.extend_from_slice(bytes),
            WriteMode::At { offset } => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(1 << 30);
                content.resize(content.len().max(from + bytes.len()), 0);
                content[from..from + bytes.len()].copy_from_slice(bytes);
            }
        }
        written.put(path, node);
        Ok(())
    }

    pub(super) fn list(&self, path: &ByteString, depth: u32) -> Result<Vec<FileEntry>, Failure> {
        let path = absolute(path);
        let written = self.written.lock();
        let node = written.nodes().get(&path).ok_or_else(|| missing(&path))?;
        if node.content.is_some() {
            return Err(wrong_kind(&path, "is not a directory"));
        }
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        let near = |below: &Path| (1..=depth).contains(&below.components().count());
        let below = written.nodes().iter().filter(|(each, _)| each.strip_prefix(&path).is_ok_and(near));
        Ok(below.map(|(each, node)| entry(node, each)).collect())
    }

    pub(super) fn make_directory(&self, path: &ByteString, parents: bool) -> Result<(), Failure> {
        let path = absolute(path);
        let mut written = self.written.lock();
        match written.nodes().get(&path) {
            Some(node) if parents && node.content.is_none() => return Ok(()),
            Some(_) => return Err(exists(&path)),
            None if parents => make_parents(&mut written, &path)?,
            None => parent_exists(written.nodes(), &path)?,
        }
        self.log.note(&path, WatchKind::Created);
        written.put(path, Node::directory());
        Ok(())
    }

    pub(super) fn rename(&self, from: &ByteString, to: &ByteString) -> Result<(), Failure> {
        let (from, to) = (absolute(from), absolute(to));
        let mut written = self.written.lock();
        if !written.nodes().contains_key(&from) {
            return Err(missing(&from));
        }
        parent_exists(written.nodes(), &to)?;
        self.log.note_renamed(&from, &to);
        for path in below(&written, &from) {
            if let (Some(node), Ok(rest)) = (written.take(&path), path.strip_prefix(&from)) {
                let target = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                written.put(target, node);
            }
        }
        Ok(())
    }

    pub(super) fn remove(&self, path: &ByteString, recursive: bool) -> Result<(), Failure> {
        let path = absolute(path);
        let mut written = self.written.lock();
        let doomed = below(&written, &path);
        match doomed.len() {
            0 => return Err(missing(&path)),
            2.. if !recursive => return Err(wrong_kind(&path, "is not empty")),
            _ => {}
        }
        self.log.note(&path, WatchKind::Removed);
        for each in doomed {
            written.take(&each);
        }
        Ok(())
    }

    pub(super) fn set_permissions(&self, path: &ByteString, permissions: u32) -> Result<(), Failure> {
        let path = absolute(path);
        let mut written = self.written.lock();
        let node = written.nodes().get(&path).cloned().ok_or_else(|| missing(&path))?;
        self.log.note(&path, WatchKind::AttributesChanged);
        written.put(path, Node { permissions, ..node });
        Ok(())
    }
}

fn entry(node: &Node, path: &Path) -> FileEntry {
    FileEntry {
        path: ByteString::from(path),
        kind: if node.content.is_some() { EntryKind::File } else { EntryKind::Directory },
        size: node.content.as_ref().map_or(0, |content| content.len() as u64),
        permissions: node.permissions,
        uid: 0,
        gid: 0,
        modified_ns: 0,
        target: None,
        owner: Some(ByteString::from("root")),
        group: Some(ByteString::from("root")),
        inode: 1,
        links: 1,
        resolved: None,
        attributes: None,
    }
}

/// The paths at and below a path.
fn below(written: &Written, path: &Path) -> Vec<PathBuf> {
    written.nodes().keys().filter(|each| each.starts_with(path)).cloned().collect()
}

pub(super) fn absolute(path: &ByteString) -> PathBuf {
    Path::new("/root").join(path.as_path())
}

fn parent_exists(nodes: &Nodes, path: &Path) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or_else(|| Path::new("/"));
    match nodes.get(parent) {
        Some(node) if node.content.is_none() => Ok(()),
        Some(_) => Err(wrong_kind(parent, "is not a directory")),
        None => Err(missing(parent)),
    }
}

fn make_parents(written: &mut Written, path: &Path) -> Result<(), Failure> {
    for parent in path.ancestors().skip(1) {
        match written.nodes().get(parent) {
            Some(node) if node.content.is_some() => return Err(wrong_kind(parent, "is not a directory")),
            Some(_) => {}
            None => written.put(parent.to_owned(), Node::directory()),
        }
    }
    Ok(())
}

fn missing(path: &Path) -> Failure {
    failure(FailureCode::NotFound, path, "does not exist", 2)
}

fn exists(path: &Path) -> Failure {
    failure(FailureCode::AlreadyExists, path, "exists", 17)
}

fn wrong_kind(path: &Path, what: &str) -> Failure {
    failure(FailureCode::WrongKind, path, what, 21)
}

fn failure(code: FailureCode, path: &Path, what: &str, errno: i32) -> Failure {
    Failure::of_kernel(code, format!("{} {what}", path.display()), errno)
}

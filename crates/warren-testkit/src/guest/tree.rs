use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use warren_wire::guest::{ByteString, EntryKind, Failure, FailureCode, FileEntry, WriteMode};

/// The files of a fake sandbox. They outlive its processes, as on a disk.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Mutex<BTreeMap<PathBuf, Node>>,
}

#[derive(Debug, Clone)]
struct Node {
    /// Absent: it is a directory.
    content: Option<Vec<u8>>,
    permissions: u32,
}

type Nodes = BTreeMap<PathBuf, Node>;

impl Tree {
    pub(crate) fn new() -> Self {
        let nodes = ["/", "/root", "/tmp"].map(|path| (PathBuf::from(path), Node::directory()));
        Self { nodes: Mutex::new(Nodes::from(nodes)) }
    }

    /// The content of a file, for those who look from outside.
    pub(crate) fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.lock().get(Path::new(path))?.content.clone()
    }

    pub(super) fn stat(&self, path: &ByteString) -> Result<FileEntry, Failure> {
        let path = absolute(path);
        let nodes = self.lock();
        nodes.get(&path).map(|node| node.entry(&path)).ok_or_else(|| missing(&path))
    }

    pub(super) fn read(&self, path: &ByteString) -> Result<(FileEntry, Vec<u8>), Failure> {
        let path = absolute(path);
        let nodes = self.lock();
        let node = nodes.get(&path).ok_or_else(|| missing(&path))?;
        let content = node.content.clone().ok_or_else(|| wrong_kind(&path, "is a directory"))?;
        Ok((node.entry(&path), content))
    }

    /// What can be said before the first byte has arrived.
    pub(super) fn may_write(&self, path: &ByteString, mode: WriteMode, parents: bool) -> Result<(), Failure> {
        let path = absolute(path);
        let nodes = self.lock();
        match nodes.get(&path) {
            Some(node) if node.content.is_none() => Err(wrong_kind(&path, "is a directory")),
            Some(_) if mode == WriteMode::CreateNew => Err(exists(&path)),
            _ if parents => Ok(()),
            _ => parent_exists(&nodes, &path),
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
        let mut nodes = self.lock();
        make_parents(&mut nodes, &path)?;
        let node = nodes
            .entry(path)
            .or_insert_with(|| Node { content: None, permissions: permissions.unwrap_or(0o644) });
        let content = node.content.get_or_insert_default();
        match mode {
            WriteMode::Replace | WriteMode::CreateNew => *content = bytes.to_vec(),
            WriteMode::Append => content.extend_from_slice(bytes),
            WriteMode::At { offset } => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(1 << 30);
                content.resize(content.len().max(from + bytes.len()), 0);
                content[from..from + bytes.len()].copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    pub(super) fn list(&self, path: &ByteString, depth: u32) -> Result<Vec<FileEntry>, Failure> {
        let path = absolute(path);
        let nodes = self.lock();
        let node = nodes.get(&path).ok_or_else(|| missing(&path))?;
        if node.content.is_some() {
            return Err(wrong_kind(&path, "is not a directory"));
        }
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        let near = |below: &Path| (1..=depth).contains(&below.components().count());
        let below = nodes.iter().filter(|(each, _)| each.strip_prefix(&path).is_ok_and(near));
        Ok(below.map(|(each, node)| node.entry(each)).collect())
    }

    pub(super) fn make_directory(&self, path: &ByteString, parents: bool) -> Result<(), Failure> {
        let path = absolute(path);
        let mut nodes = self.lock();
        match nodes.get(&path) {
            Some(node) if parents && node.content.is_none() => return Ok(()),
            Some(_) => return Err(exists(&path)),
            None if parents => make_parents(&mut nodes, &path)?,
            None => parent_exists(&nodes, &path)?,
        }
        nodes.insert(path, Node::directory());
        Ok(())
    }

    pub(super) fn rename(&self, from: &ByteString, to: &ByteString) -> Result<(), Failure> {
        let (from, to) = (absolute(from), absolute(to));
        let mut nodes = self.lock();
        if !nodes.contains_key(&from) {
            return Err(missing(&from));
        }
        parent_exists(&nodes, &to)?;
        let moved: Vec<PathBuf> = nodes.keys().filter(|path| path.starts_with(&from)).cloned().collect();
        for path in moved {
            if let (Some(node), Ok(rest)) = (nodes.remove(&path), path.strip_prefix(&from)) {
                let target = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                nodes.insert(target, node);
            }
        }
        Ok(())
    }

    pub(super) fn remove(&self, path: &ByteString, recursive: bool) -> Result<(), Failure> {
        let path = absolute(path);
        let mut nodes = self.lock();
        if !nodes.contains_key(&path) {
            return Err(missing(&path));
        }
        let below = nodes.keys().filter(|each| each.starts_with(&path)).count();
        if below > 1 && !recursive {
            return Err(wrong_kind(&path, "is not empty"));
        }
        nodes.retain(|each, _| !each.starts_with(&path));
        Ok(())
    }

    pub(super) fn set_permissions(&self, path: &ByteString, permissions: u32) -> Result<(), Failure> {
        let path = absolute(path);
        self.lock().get_mut(&path).ok_or_else(|| missing(&path))?.permissions = permissions;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    fn directory() -> Self {
        Self { content: None, permissions: 0o755 }
    }

    fn entry(&self, path: &Path) -> FileEntry {
        FileEntry {
            path: ByteString::from(path),
            kind: if self.content.is_some() { EntryKind::File } else { EntryKind::Directory },
            size: self.content.as_ref().map_or(0, |content| content.len() as u64),
            permissions: self.permissions,
            uid: 0,
            gid: 0,
            modified_ns: 0,
            target: None,
            owner: Some(ByteString::from("root")),
            group: Some(ByteString::from("root")),
            inode: 1,
            links: 1,
        }
    }
}

fn absolute(path: &ByteString) -> PathBuf {
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

fn make_parents(nodes: &mut Nodes, path: &Path) -> Result<(), Failure> {
    for parent in path.ancestors().skip(1) {
        let node = nodes.entry(parent.to_owned()).or_insert_with(Node::directory);
        if node.content.is_some() {
            return Err(wrong_kind(parent, "is not a directory"));
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
    Failure { code, message: format!("{} {what}", path.display()), errno: Some(errno) }
}

//! Files in memory, and changes of them. Fake layers are made of these.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A file or a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// Absent: it is a directory.
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) permissions: u32,
}

impl Node {
    pub(crate) fn directory() -> Self {
        Self { content: None, permissions: 0o755 }
    }
}

/// All files of a state, by their absolute paths.
pub(crate) type Nodes = BTreeMap<PathBuf, Node>;

/// The files of a new fake sandbox.
pub(crate) fn skeleton() -> Nodes {
    Nodes::from(["/", "/root", "/tmp"].map(|path| (PathBuf::from(path), Node::directory())))
}

/// Changes on top of a state. `None` hides a path below, which exists there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delta(pub(crate) BTreeMap<PathBuf, Option<Node>>);

impl Delta {
    /// The changes from one state to another.
    pub(crate) fn between(from: &Nodes, to: &Nodes) -> Self {
        let removed = from.keys().filter(|path| !to.contains_key(*path)).map(|path| (path.clone(), None));
        let written = to.iter().filter(|(path, node)| from.get(*path) != Some(node));
        Self(removed.chain(written.map(|(path, node)| (path.clone(), Some(node.clone())))).collect())
    }

    pub(crate) fn apply(&self, nodes: &mut Nodes) {
        for (path, node) in &self.0 {
            match node {
                Some(node) => drop(nodes.insert(path.clone(), node.clone())),
                None => drop(nodes.remove(path)),
            }
        }
    }

    /// Adds the changes of another on top.
    pub(crate) fn cover(&mut self, top: &Self) {
        self.0.extend(top.0.iter().map(|(path, node)| (path.clone(), node.clone())));
    }

    pub(crate) fn bytes(&self) -> u64 {
        let contents = self.0.values().flatten().filter_map(|node| node.content.as_ref());
        contents.map(|content| content.len() as u64).sum()
    }
}

/// A state that is written to.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    below: Nodes,
    nodes: Nodes,
    upper: Delta,
}

impl Written {
    pub(crate) fn on(below: Nodes, upper: Delta) -> Self {
        let mut nodes = below.clone();
        upper.apply(&mut nodes);
        Self { below, nodes, upper }
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub(crate) fn upper(&self) -> &Delta {
        &self.upper
    }

    /// The changes since an earlier delta.
    pub(crate) fn since(&self, earlier: &Delta) -> Delta {
        let mut then = self.below.clone();
        earlier.apply(&mut then);
        Delta::between(&then, &self.nodes)
    }

    /// Moves all changes into the state below, and returns them.
    pub(crate) fn sink(&mut self) -> Delta {
        self.below.clone_from(&self.nodes);
        std::mem::take(&mut self.upper)
    }

    /// Removes all changes.
    pub(crate) fn clear(&mut self) {
        self.upper = Delta::default();
        self.nodes.clone_from(&self.below);
    }

    pub(crate) fn put(&mut self, path: PathBuf, node: Node) {
        self.upper.0.insert(path.clone(), Some(node.clone()));
        self.nodes.insert(path, node);
    }

    pub(crate) fn take(&mut self, path: &Path) -> Option<Node> {
        if self.below.contains_key(path) {
            self.upper.0.insert(path.to_owned(), None);
        } else {
            self.upper.0.remove(path);
        }
        self.nodes.remove(path)
    }
}

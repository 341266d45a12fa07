use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::spec::MountAccess;

/// The root file system that a sandbox starts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// Trees of layers. The first is mounted at `/`, others below it.
    Layers(Vec<RootTree>),
    /// An image that the backend itself has, by the name under which it knows it.
    Image(String),
}

/// The kinds of [`Root`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootKind {
    Layers,
    Image,
}

impl Root {
    pub fn kind(&self) -> RootKind {
        match self {
            Self::Layers(_) => RootKind::Layers,
            Self::Image(_) => RootKind::Image,
        }
    }

    /// The trees of layers; none of an image.
    pub fn trees(&self) -> &[RootTree] {
        match self {
            Self::Layers(trees) => trees,
            Self::Image(_) => &[],
        }
    }

    /// As [`Root::trees`].
    pub fn trees_mut(&mut self) -> &mut [RootTree] {
        match self {
            Self::Layers(trees) => trees,
            Self::Image(_) => &mut [],
        }
    }

    /// As [`Root::trees`].
    pub fn into_trees(self) -> Vec<RootTree> {
        match self {
            Self::Layers(trees) => trees,
            Self::Image(_) => Vec::new(),
        }
    }
}

/// A part of the root file system: host directories, which are never written to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootTree {
    /// Absolute path inside the sandbox.
    pub at: PathBuf,
    /// Host directories, the topmost first, with ids as seen inside.
    pub lowers: Vec<PathBuf>,
    /// Writable trees have a private layer of the sandbox's on top.
    pub access: MountAccess,
}

/// A directory of the machine itself, as the two lowest of a tree's. Only what everybody on the
/// machine may read is there for anyone inside, whatever his rights there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown<'a> {
    /// Has a whiteout for each name below that is not for everybody.
    pub hidden: &'a Path,
    /// The machine's own directory, which changes when its packages do.
    pub machine: &'a Path,
}

impl<'a> Shown<'a> {
    /// The name of the directory with the whiteouts. No layer and no template has another of that
    /// name.
    pub const HIDDEN: &'static str = "hidden";

    /// Parts a tree's directories into those of layers and templates, and what is the machine's own
    /// below them.
    pub fn part(lowers: &'a [PathBuf]) -> (&'a [PathBuf], Option<Self>) {
        match lowers {
            [layers @ .., hidden, machine] if hidden.file_name().is_some_and(|name| name == Self::HIDDEN) => {
                (layers, Some(Self { hidden, machine }))
            }
            layers => (layers, None),
        }
    }
}

/// The content of the writable layers that a sandbox starts with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RootState {
    /// Nothing.
    #[default]
    Fresh,
    /// Files that an earlier life of the same id left there.
    Kept,
}

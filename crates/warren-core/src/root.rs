use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::root_image::RootImage;
use crate::spec::{MountAccess, SandboxSpec};

/// The root file system that a sandbox starts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// Trees of layers. The first is mounted at `/`, others below it.
    Layers(Vec<RootTree>),
    /// An image that the backend itself has. The one tree is writable and mounted at `/`: its
    /// directories are layers of ours on top of the image's own, as far as those are known.
    Image { image: RootImage, trees: Vec<RootTree> },
}

/// The kinds of [`Root`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootKind {
    Layers,
    Image,
}

/// An image that a backend has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundImage {
    /// With its digest.
    pub image: RootImage,
    /// One writable tree at `/`. Its directories are the image's own where the machine shows them;
    /// otherwise it has none, and what differs from the image cannot be told.
    pub trees: Vec<RootTree>,
}

impl RootKind {
    /// The kind of root that a spec asks for.
    pub fn of(spec: &SandboxSpec) -> Self {
        if spec.image.is_some() { Self::Image } else { Self::Layers }
    }
}

impl Root {
    pub fn kind(&self) -> RootKind {
        match self {
            Self::Layers(_) => RootKind::Layers,
            Self::Image { .. } => RootKind::Image,
        }
    }

    /// The trees of layers. No tree: nothing is known of the root.
    pub fn trees(&self) -> &[RootTree] {
        match self {
            Self::Layers(trees) | Self::Image { trees, .. } => trees,
        }
    }

    /// As [`Root::trees`].
    pub fn trees_mut(&mut self) -> &mut [RootTree] {
        match self {
            Self::Layers(trees) | Self::Image { trees, .. } => trees,
        }
    }

    /// As [`Root::trees`].
    pub fn into_trees(self) -> Vec<RootTree> {
        match self {
            Self::Layers(trees) | Self::Image { trees, .. } => trees,
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

    /// Where the template of a machine's own `/usr` is kept, for all its data directories. Outside
    /// of each: who removes one takes nothing from sandboxes of another.
    pub const PLACE: &'static str = "/var/lib/warren-host";

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

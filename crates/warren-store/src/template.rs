use std::path::{Path, PathBuf};

use warren_core::{
    CreateRequest, MountAccess, OwnerBond, Root, RootState, RootTree, SandboxId, SandboxSpec, Shown,
};

use crate::manifest::Manifest;
use crate::name::TemplateName;

/// The name of a sandbox that is given no other: `etc/hostname` of every template.
pub(crate) const HOSTNAME: &str = "sandbox\n";

/// `etc/hosts` of every template, which knows that name.
pub(crate) const HOSTS: &str = "127.0.0.1 localhost sandbox
::1 localhost ip6-localhost ip6-loopback
";

/// A template as a sandbox uses it: what it is, and the trees to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its name in the store.
    pub name: TemplateName,
    /// The facts about it.
    pub manifest: Manifest,
    /// Parents before children, so that they can be mounted in order.
    pub trees: Vec<Tree>,
}

impl Template {
    /// The request for a sandbox of this template, for a backend. The disk limit is the default
    /// one, as hard as it can be had.
    pub fn request(&self, id: SandboxId, spec: SandboxSpec, owner: OwnerBond) -> CreateRequest {
        let config = &self.manifest.config;
        let user = spec.user.clone().unwrap_or_else(|| config.user.clone());
        let own = spec.env.iter().map(|(name, value)| format!("{name}={value}"));
        CreateRequest {
            id,
            state: RootState::Fresh,
            root: Root::Layers(self.trees.iter().map(|tree| self.root_tree(tree, &user)).collect()),
            env: config.env.iter().cloned().chain(own).collect(),
            user: Some(user),
            workdir: Some(spec.workdir.clone().unwrap_or_else(|| PathBuf::from(&config.workdir))),
            owner,
            network: None,
            disk_limit_required: false,
            spec,
        }
    }

    /// The machine's own `/usr`, which alone is a tree of its own, gets a writable layer only if
    /// the sandbox's user is root: no other could write there, and the layer would cost more than
    /// all other mounts together. A template that was made of a state may have more than the
    /// machine's own there, which only an overlay with a writable layer shows as one.
    fn root_tree(&self, tree: &Tree, user: &str) -> RootTree {
        let is_root = matches!(user.split(':').next(), Some("root" | "0"));
        let is_whole = matches!(Shown::part(&tree.lowers), ([], Some(_)));
        let beyond_reach = tree.at == Path::new("/usr") && !is_root && is_whole;
        let access = if beyond_reach { MountAccess::ReadOnly } else { MountAccess::ReadWrite };
        RootTree { at: tree.at.clone(), lowers: tree.lowers.clone(), access }
    }
}

/// Host directories that make up one place inside the sandbox. They are shared by every sandbox of
/// the template: mount them read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Where it appears inside, absolute.
    pub at: PathBuf,
    /// Host directories, topmost first.
    pub lowers: Vec<PathBuf>,
}

use std::fs;
use std::path::{Path, PathBuf};

use warren_core::{CreateRequest, MountAccess, OwnerBond, Root, RootState, RootTree, SandboxId, SandboxSpec};

use crate::manifest::{Manifest, ReadError};
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
            root: Root::Layers(self.trees.iter().map(Tree::writable).collect()),
            env: config.env.iter().cloned().chain(own).collect(),
            user: Some(user),
            workdir: Some(spec.workdir.clone().unwrap_or_else(|| PathBuf::from(&config.workdir))),
            owner,
            network: None,
            disk_limit_required: false,
            memory: None,
            spec,
        }
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

impl Tree {
    fn writable(&self) -> RootTree {
        RootTree { at: self.at.clone(), lowers: self.lowers.clone(), access: MountAccess::ReadWrite }
    }
}

/// True if another template stands on this one. One that cannot be read stands on nothing.
pub(crate) fn is_stood_on(templates: &Path, name: &TemplateName) -> bool {
    let Ok(entries) = fs::read_dir(templates) else { return false };
    let others =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<TemplateName>().ok());
    let base_of = |other: TemplateName| Manifest::read(&templates.join(other.as_str()), &other).ok()?.base;
    others.filter_map(base_of).any(|base| base == *name)
}

/// Reads an imported template from the directory of templates.
pub(crate) fn imported(templates: &Path, name: &TemplateName) -> Result<Template, ReadError> {
    let directory = templates.join(name.as_str());
    let manifest = Manifest::read(&directory, name)?;
    let root = Tree { at: PathBuf::from("/"), lowers: vec![directory.join("root")] };
    Ok(Template { name: name.clone(), manifest, trees: vec![root] })
}

use std::path::PathBuf;

use crate::manifest::Manifest;
use crate::name::TemplateName;

/// What a sandbox calls itself unless it is given another name: `etc/hostname` of every template.
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
    /// What is known of it.
    pub manifest: Manifest,
    /// Parents before children, so that they can be mounted in order.
    pub trees: Vec<Tree>,
}

/// Host directories that make up one place inside the sandbox. They are shared by every sandbox of the template: mount
/// them read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Where it appears inside, absolute.
    pub at: PathBuf,
    /// Host directories, topmost first.
    pub lowers: Vec<PathBuf>,
}

use serde::Serialize;

use crate::failure::Failure;
use crate::id::{SandboxId, TemplateName};
use crate::isolation::{CreateRequest, OwnerBond};
use crate::registry::{ImageAddress, RegistryErrorKind};
use crate::spec::SandboxSpec;

/// Where sandboxes start from. Methods block.
pub trait Templates: Send + Sync {
    /// Every template, by name. Broken ones are listed with what is wrong.
    fn templates(&self) -> Result<Vec<TemplateInfo>, TemplateError>;

    /// The request that makes a sandbox of the spec's template on a backend.
    fn request(
        &self,
        id: &SandboxId,
        spec: &SandboxSpec,
        owner: OwnerBond,
    ) -> Result<CreateRequest, TemplateError>;

    /// True if any owner may have images of this registry pulled.
    fn is_open(&self, registry: &str) -> bool;

    /// Makes a template of an image of an open registry, if there is none of it yet.
    fn pull_open(&self, image: &ImageAddress) -> Result<TemplateName, TemplateError>;

    /// Removes a template; `in_use` are the templates of existing sandboxes.
    fn remove_template(&self, name: &TemplateName, in_use: &[TemplateName]) -> Result<(), TemplateError>;
}

/// A template, as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TemplateInfo {
    pub name: TemplateName,
    pub digest: String,
    pub size_bytes: u64,
    pub created_unix_ms: u64,
    /// Where it came from: `built_in`, `directory`, `archive`, `image`, `snapshot`.
    pub source: String,
    /// The default user, working directory and command.
    pub user: String,
    pub workdir: String,
    /// The image of a registry that it was pulled as, by its whole name.
    pub image: Option<String>,
    /// Why it cannot be used; absent when it can.
    pub broken: Option<String>,
}

/// A template could not be used.
pub type TemplateError = Failure<TemplateErrorKind>;

/// The kind of a [`TemplateError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TemplateErrorKind {
    NotFound,
    /// It is built in, or sandboxes of it exist.
    InUse,
    /// It is damaged or of a newer format.
    Broken,
    /// The registry of the image that it is to be made of gives none.
    Registry(RegistryErrorKind),
    /// The registry is not open to every owner.
    NotOpen,
    /// The image cannot be used.
    Image,
    /// The image takes more than it may.
    TooLarge,
    /// Another template has the name.
    NameTaken,
    Host,
}

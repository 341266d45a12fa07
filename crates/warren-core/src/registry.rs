//! Registries of container images: the names by which images are asked for, and the port behind
//! which they are fetched.

mod address;

use std::io::Read;

use crate::failure::Failure;

pub use address::{DOCKER_HUB, ImageAddress, ImageAddressError};

/// One image at its registry. Methods block, and may be called from several threads at once.
///
/// Nothing of what is answered is to be believed: who asks checks digests, sizes and content.
pub trait ImageSource: Send + Sync {
    /// The manifest or index of a digest, or else the one that the image's name means.
    fn manifest(&self, digest: Option<&str>) -> Result<Vec<u8>, RegistryError>;

    /// The bytes of a blob from a position on. They may end early: who still wants the rest asks
    /// again.
    fn blob(&self, digest: &str, from: u64) -> Result<Box<dyn Read + Send>, RegistryError>;

    /// The name by which the image was asked for.
    fn address(&self) -> &ImageAddress;
}

/// The registries whose images every owner may begin with.
pub trait OpenRegistries: Send + Sync + std::fmt::Debug {
    /// True if a registry is one of them.
    fn is_open(&self, registry: &str) -> bool;

    /// An image of one of them, as anybody gets it.
    fn image(&self, address: &ImageAddress) -> Result<Box<dyn ImageSource>, RegistryError>;
}

/// A registry did not give what was asked for.
pub type RegistryError = Failure<RegistryErrorKind>;

/// The kind of a [`RegistryError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RegistryErrorKind {
    /// It has no such image, or does not show it to this caller.
    NotFound,
    /// It wants other credentials.
    Denied,
    /// It cannot be reached, is too busy or too slow.
    Unreachable,
    /// Its answer makes no sense or is not permitted: too long, or leading to where it must not.
    Refused,
}

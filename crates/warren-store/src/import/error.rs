use std::io;
use std::path::PathBuf;

use warren_core::{ErrorCode, RegistryError};

use super::archive::ArchiveError;
use super::limits::LimitExceeded;
use crate::digest::Digest;
use crate::manifest::{ConfigError, ReadError, WriteError};
use crate::name::TemplateName;
use crate::staging::StagingError;
use crate::tree::EntryError;

const EXCERPT: usize = 200;

/// A template could not be imported. Nothing of it is left, and an earlier one of the name is as it
/// was.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("`host` is the built-in template: choose another name")]
    Reserved,
    #[error("template `{name}` already exists: remove it first, or ask for it to be replaced")]
    AlreadyExists { name: TemplateName },
    #[error(
        "template `{name}` is in use: end the sandboxes made from it, remove the templates that stand on it, then try again"
    )]
    InUse { name: TemplateName },
    #[error("open `{}` to import it", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("`{}` is neither a file nor a directory", path.display())]
    OddSource { path: PathBuf },
    #[error("the source contains this store's own data directory: import another directory")]
    ContainsStore,
    #[error("read the source")]
    Read(#[source] io::Error),
    #[error("store the source while it is examined")]
    Spool(#[source] io::Error),
    #[error(
        "the source is not an archive: give a directory, a root filesystem as tar (plain, gzip or zstd), \
         an OCI image layout archive or what `docker save` writes"
    )]
    NotAnArchive,
    #[error("the source is compressed with {with}: decompress it first, or use gzip or zstd")]
    Compression { with: &'static str },
    #[error("the source holds no files")]
    Empty,
    #[error("the archive is damaged")]
    Archive(#[source] ArchiveError),
    #[error("the source exceeds a limit")]
    Limit(#[source] LimitExceeded),
    #[error("entry `{entry}` cannot be imported")]
    Entry { entry: String, source: EntryError },
    #[error("the image cannot be used")]
    Image(#[source] ImageError),
    #[error(transparent)]
    Registry(RegistryError),
    #[error("keep layers of images in `{}`", path.display())]
    Blobs { path: PathBuf, source: io::Error },
    /// Bytes that an earlier pull left are not those of the image. They are not kept any longer.
    #[error(transparent)]
    Stale(Box<ImportError>),
    #[error("store template `{name}`")]
    Stage { name: TemplateName, source: StagingError },
    #[error("describe template `{name}`")]
    Describe { name: TemplateName, source: WriteError },
    #[error("read template `{name}` back")]
    ReadBack { name: TemplateName, source: ReadError },
}

/// An image is malformed, incomplete or not for this machine.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("`{part}` is missing from the archive; images are never completed from the network")]
    Missing { part: String },
    #[error("`{part}` is larger than {limit} bytes")]
    TooLarge { part: String, limit: u64 },
    #[error("`{part}` is malformed")]
    Malformed { part: String, source: serde_json::Error },
    #[error("`{part}` has digest {found} instead of {expected}: fetch the image again")]
    DigestMismatch { part: String, expected: Digest, found: Digest },
    #[error("`{part}` has {found} bytes instead of {expected}: fetch the image again")]
    SizeMismatch { part: String, expected: u64, found: u64 },
    #[error("it is for {}, and this machine is linux/{architecture}", offered(found))]
    Platform { architecture: &'static str, found: Vec<String> },
    #[error("it is of the first version of images, which has no digests: push it again with a newer program")]
    Schema1,
    #[error("the archive holds {images} images: save one only")]
    Ambiguous { images: usize },
    #[error("image indexes are nested too deeply")]
    Nesting,
    #[error("the image has no layers")]
    NoLayers,
    #[error("the image has {layers} layers and its configuration names {diff_ids}")]
    LayerCount { layers: usize, diff_ids: usize },
    #[error("layer type `{media_type}` is not supported")]
    MediaType { media_type: String },
    #[error("the image's configuration cannot be used")]
    Config(#[source] ConfigError),
}

fn offered(found: &[String]) -> String {
    if found.is_empty() { "no machine at all".to_owned() } else { found.join(", ") }
}

impl ImportError {
    /// The code of the error, for whoever asked.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Reserved | Self::AlreadyExists { .. } => ErrorCode::AlreadyExists,
            Self::InUse { .. } => ErrorCode::InUse,
            Self::Limit(_) => ErrorCode::PayloadTooLarge,
            Self::Registry(error) => error.kind.code(),
            Self::NotAnArchive
            | Self::Compression { .. }
            | Self::Empty
            | Self::Archive(_)
            | Self::Entry { .. }
            | Self::Image(_) => ErrorCode::InvalidValue,
            Self::Stale(error) => error.code(),
            _ => ErrorCode::Internal,
        }
    }

    /// Sorts a failed read: limits and truncation are found deep inside decoders and surface as
    /// read errors.
    pub(crate) fn reading(error: io::Error) -> Self {
        if let Some(limit) = error.get_ref().and_then(|inner| inner.downcast_ref::<LimitExceeded>()) {
            return Self::Limit(limit.clone());
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Archive(ArchiveError::Truncated),
            _ => Self::Read(error),
        }
    }

    pub(crate) fn entry(name: &[u8]) -> impl Fn(EntryError) -> Self {
        let text = String::from_utf8_lossy(&name[..name.len().min(EXCERPT)]);
        let entry: String = text.escape_debug().take(EXCERPT).collect();
        move |source| Self::Entry { entry: entry.clone(), source }
    }
}

impl From<ArchiveError> for ImportError {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Read(source) => Self::reading(source),
            other => Self::Archive(other),
        }
    }
}

impl From<LimitExceeded> for ImportError {
    fn from(error: LimitExceeded) -> Self {
        Self::Limit(error)
    }
}

impl From<ImageError> for ImportError {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

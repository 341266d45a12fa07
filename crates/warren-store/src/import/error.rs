use std::io;
use std::path::PathBuf;

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
    /// The name is that of the built-in template.
    #[error("`host` is the built-in template: choose another name")]
    Reserved,
    /// There is one already.
    #[error("template `{name}` already exists: remove it first, or ask for it to be replaced")]
    AlreadyExists {
        /// The name.
        name: TemplateName,
    },
    /// Sandboxes use the one to be replaced.
    #[error(
        "template `{name}` is in use: end the sandboxes made from it, remove the templates that stand on it, then try again"
    )]
    InUse {
        /// The name.
        name: TemplateName,
    },
    /// The source could not be opened.
    #[error("open `{}` to import it", path.display())]
    Open {
        /// The source.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The source is a pipe, a device or the like.
    #[error("`{}` is neither a file nor a directory", path.display())]
    OddSource {
        /// The source.
        path: PathBuf,
    },
    /// The source is a directory that contains the store.
    #[error("the source contains this store's own data directory: import another directory")]
    ContainsStore,
    /// The source could not be read.
    #[error("read the source")]
    Read(#[source] io::Error),
    /// The source could not be stored while it is examined.
    #[error("store the source while it is examined")]
    Spool(#[source] io::Error),
    /// The source is nothing known.
    #[error(
        "the source is not an archive: give a directory, a root filesystem as tar (plain, gzip or zstd), \
         an OCI image layout archive or what `docker save` writes"
    )]
    NotAnArchive,
    /// The source is compressed in a way that is not read.
    #[error("the source is compressed with {with}: decompress it first, or use gzip or zstd")]
    Compression {
        /// The name of the format.
        with: &'static str,
    },
    /// The source holds no files.
    #[error("the source holds no files")]
    Empty,
    /// The archive is damaged.
    #[error("the archive is damaged")]
    Archive(#[source] ArchiveError),
    /// The source is too large in some way.
    #[error("the source exceeds a limit")]
    Limit(#[source] LimitExceeded),
    /// An entry is refused.
    #[error("entry `{entry}` cannot be imported")]
    Entry {
        /// Its name, shortened.
        entry: String,
        /// Why.
        #[source]
        source: EntryError,
    },
    /// The image is unusable.
    #[error("the image cannot be used")]
    Image(#[source] ImageError),
    /// The template could not be staged or published.
    #[error("store template `{name}`")]
    Stage {
        /// The name.
        name: TemplateName,
        /// Why.
        #[source]
        source: StagingError,
    },
    /// The manifest could not be written.
    #[error("describe template `{name}`")]
    Describe {
        /// The name.
        name: TemplateName,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// The finished template could not be read back.
    #[error("read template `{name}` back")]
    ReadBack {
        /// The name.
        name: TemplateName,
        /// Why.
        #[source]
        source: ReadError,
    },
}

/// An image is malformed, incomplete or not for this machine.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A part is not in the archive.
    #[error("`{part}` is missing from the archive; images are never completed from the network")]
    Missing {
        /// The part.
        part: String,
    },
    /// A document is too large.
    #[error("`{part}` is larger than {limit} bytes")]
    TooLarge {
        /// The part.
        part: String,
        /// The bound.
        limit: u64,
    },
    /// A document is not what it should be.
    #[error("`{part}` is malformed")]
    Malformed {
        /// The part.
        part: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A part's content is not what was promised.
    #[error("`{part}` has digest {found} instead of {expected}: fetch the image again")]
    DigestMismatch {
        /// The part.
        part: String,
        /// The promised digest.
        expected: Digest,
        /// The real digest.
        found: Digest,
    },
    /// A part's size is not what was promised.
    #[error("`{part}` has {found} bytes instead of {expected}: fetch the image again")]
    SizeMismatch {
        /// The part.
        part: String,
        /// The promised size.
        expected: u64,
        /// The real size.
        found: u64,
    },
    /// No image for this machine.
    #[error("the archive has no image for linux/{architecture}")]
    Platform {
        /// This machine's architecture, as images name it.
        architecture: &'static str,
    },
    /// Several images.
    #[error("the archive holds {images} images: save one only")]
    Ambiguous {
        /// How many.
        images: usize,
    },
    /// Indexes that refer to indexes without end.
    #[error("image indexes are nested too deeply")]
    Nesting,
    /// An image without layers.
    #[error("the image has no layers")]
    NoLayers,
    /// Layers and configuration disagree.
    #[error("the image has {layers} layers and its configuration names {diff_ids}")]
    LayerCount {
        /// Layers present.
        layers: usize,
        /// Layers named.
        diff_ids: usize,
    },
    /// A layer that is no file tree.
    #[error("layer type `{media_type}` is not supported")]
    MediaType {
        /// The type.
        media_type: String,
    },
    /// The configuration cannot be used.
    #[error("the image's configuration cannot be used")]
    Config(#[source] ConfigError),
}

impl ImportError {
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

//! Everything that lasts on disk: the catalog of records, and the templates that sandboxes start
//! from.
//!
//! A [`SqliteCatalog`] keeps the records of sandboxes, sessions, runs, keys and events, for one
//! server at a time.
//!
//! A [`TemplateStore`] keeps immutable file trees under one data directory. `host` is built in: a
//! generated skeleton and the machine's own `/usr`. Every other template is imported from a
//! directory, a root filesystem archive or a container image.
//!
//! ```text
//! <data>/templates/<name>/template.json    manifest: format version, digest, config
//! <data>/templates/<name>/root/            the tree, owned by the ids seen inside (0 to 65535)
//! <data>/templates/<name>/layer/upper-<n>/ instead, in one that stands on another: its changes
//!                                          of that one's tree n
//! <data>/templates/<name>/image.json       the image of a registry that it was pulled as
//! <data>/blobs/<hex>[.partial]             layers of pulled images as their registries have them
//! <data>/templates/.staging-<random>/      an import under way, locked by its importer
//! <place>/<fingerprint>/                   the skeleton of `host` for the machine as it is now
//! <place>/usr-<digest>/                    hides the private files of the machine's `/usr`
//! <data>/build-files/<owner>/<hash>        archives that clients sent for builds of images
//! <data>/common/<fingerprint>/root/        files of every sandbox, on top of an imported tree
//! ```
//!
//! The place of `host` is `/var/lib/warren-host`, for all data directories of the machine on that
//! file system, or else `<data>/templates-host`.
//!
//! A template is built in staging and appears by one rename, so that a reader sees a whole template
//! or none. The archives are hostile input: each of their paths is resolved by the kernel inside
//! the staging directory, and no program of theirs is ever run.

mod blobs;
mod build_files;
mod catalog;
mod digest;
mod host;
mod import;
mod layers;
mod manifest;
mod name;
mod pulled;
mod staging;
mod store;
mod template;
mod templates;
mod tree;

pub use build_files::BuildFileStore;
pub use catalog::{CatalogOpenError, DamageFound, IdentityError, MakeError, SqliteCatalog};
pub use digest::{Digest, DigestError};
pub use host::{HostError, SHOWN, hidden_names};
pub use import::archive::ArchiveError;
pub use import::error::{ImageError, ImportError};
pub use import::limits::{ImportLimits, LimitExceeded, Progress};
pub use import::{ImportRequest, ImportSource, Imported, Replace, Skipped};
pub use layers::{LayerDirectory, fill, pool};
pub use manifest::{ConfigError, Manifest, ReadError, SourceKind, TemplateConfig, WriteError};
pub use name::{TemplateName, TemplateNameError};
pub use pulled::PulledImage;
pub use staging::StagingError;
pub use store::{Listing, OpenError, RemoveError, TemplateStore};
pub use template::{Template, Tree};
pub use tree::EntryError;

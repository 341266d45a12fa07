use super::CatalogError;
use crate::image::{ImageRecord, KeptStep};
use crate::node::NodeId;
use crate::owner::Owner;
use crate::snapshot::SnapshotRecord;

/// Records of images. Changes are acknowledged with [`super::Durability::Disk`].
pub trait ImageCatalog: Send + Sync {
    /// Writes a new image down. Another one of its owner with that id or name is
    /// [`super::CatalogErrorKind::AlreadyExists`].
    fn insert_image(&self, record: &ImageRecord) -> Result<(), CatalogError>;

    /// Replaces a record. The stored generation must be one less than the record's, else
    /// [`super::CatalogErrorKind::Stale`]; owner, id and creation time never change.
    fn update_image(&self, record: &ImageRecord) -> Result<(), CatalogError>;

    /// Removes an image that is still as in the record, else [`super::CatalogErrorKind::Stale`].
    fn remove_image(&self, record: &ImageRecord) -> Result<(), CatalogError>;

    /// The image of that name, or else of that id.
    fn image(&self, owner: &Owner, name: &str) -> Result<Option<ImageRecord>, CatalogError>;

    /// All of an owner's, the newest first.
    fn images(&self, owner: &Owner) -> Result<Vec<ImageRecord>, CatalogError>;

    /// How many images an owner has, and how many bytes their records take.
    fn room_of_images(&self, owner: &Owner) -> Result<ImageRoom, CatalogError>;

    /// All owners' images with a build that has begun. For the engine's start.
    fn images_being_built(&self) -> Result<Vec<ImageRecord>, CatalogError>;

    /// All owners' snapshots of a node that were taken for images. For the engine's start.
    fn snapshots_of_images(&self, node: &NodeId) -> Result<Vec<SnapshotRecord>, CatalogError>;

    /// Makes or replaces the state of that key.
    fn keep_step(&self, owner: &Owner, step: &KeptStep) -> Result<(), CatalogError>;

    /// An owner's states between steps, those that nobody used for the longest time first.
    fn kept_steps(&self, owner: &Owner) -> Result<Vec<KeptStep>, CatalogError>;

    /// Removes the state of that key, if there is one.
    fn forget_step(&self, owner: &Owner, key: &str) -> Result<(), CatalogError>;
}

/// The room that an owner's images take in the catalog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageRoom {
    pub images: u64,
    pub bytes: u64,
}

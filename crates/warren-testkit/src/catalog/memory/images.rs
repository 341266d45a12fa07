use warren_core::catalog::{CatalogError, CatalogErrorKind, ImageCatalog, ImageRoom};
use warren_core::{ImageRecord, KeptStep, NodeId, Owner, SnapshotReason, SnapshotRecord};

use super::{MemoryCatalog, Records, failure};

impl ImageCatalog for MemoryCatalog {
    fn insert_image(&self, record: &ImageRecord) -> Result<(), CatalogError> {
        let mut records = self.enter("insert_image")?;
        assert_eq!(record.generation, 1, "a new record is its own first");
        check_tags(record);
        let place = (record.owner.clone(), record.id.clone());
        if records.images.contains_key(&place) || records.has_named_image(record) {
            return Err(failure(CatalogErrorKind::AlreadyExists, &record.id));
        }
        records.images.insert(place, record.clone());
        Ok(())
    }

    fn update_image(&self, record: &ImageRecord) -> Result<(), CatalogError> {
        let mut records = self.enter("update_image")?;
        check_tags(record);
        let stored = records.stored_image(record)?;
        assert_eq!(stored.created_unix_ms, record.created_unix_ms, "the creation time never changes");
        assert!(record.generation <= stored.generation + 1, "generation {} is leapt to", record.generation);
        if record.generation <= stored.generation {
            return Err(failure(CatalogErrorKind::Stale, &record.id));
        }
        if records.has_named_image(record) {
            return Err(failure(CatalogErrorKind::AlreadyExists, &record.id));
        }
        records.images.insert((record.owner.clone(), record.id.clone()), record.clone());
        Ok(())
    }

    fn remove_image(&self, record: &ImageRecord) -> Result<(), CatalogError> {
        let mut records = self.enter("remove_image")?;
        if records.stored_image(record)?.generation != record.generation {
            return Err(failure(CatalogErrorKind::Stale, &record.id));
        }
        records.images.remove(&(record.owner.clone(), record.id.clone()));
        Ok(())
    }

    fn image(&self, owner: &Owner, name: &str) -> Result<Option<ImageRecord>, CatalogError> {
        let records = self.enter("image")?;
        let own = || records.images.values().filter(|record| record.owner == *owner);
        let named = own().find(|record| record.name.as_deref() == Some(name));
        Ok(named.or_else(|| own().find(|record| record.id.as_str() == name)).cloned())
    }

    fn images(&self, owner: &Owner) -> Result<Vec<ImageRecord>, CatalogError> {
        let records = self.enter("images")?;
        let mut own: Vec<ImageRecord> =
            records.images.values().filter(|record| record.owner == *owner).cloned().collect();
        own.sort_by(|one, other| (other.created_unix_ms, &other.id).cmp(&(one.created_unix_ms, &one.id)));
        Ok(own)
    }

    fn room_of_images(&self, owner: &Owner) -> Result<ImageRoom, CatalogError> {
        let records = self.enter("room_of_images")?;
        let mut room = ImageRoom::default();
        for record in records.images.values().filter(|record| record.owner == *owner) {
            let text = serde_json::to_string(record).expect("a record can be written");
            room = ImageRoom { images: room.images + 1, bytes: room.bytes + text.len() as u64 };
        }
        Ok(room)
    }

    fn images_being_built(&self) -> Result<Vec<ImageRecord>, CatalogError> {
        let records = self.enter("images_being_built")?;
        Ok(records.images.values().filter(|record| record.is_building()).cloned().collect())
    }

    fn snapshots_of_images(&self, node: &NodeId) -> Result<Vec<SnapshotRecord>, CatalogError> {
        let records = self.enter("snapshots_of_images")?;
        let of_images = |row: &&SnapshotRecord| row.reason == SnapshotReason::Image && row.node == *node;
        let taken = records.snapshots.values().filter(of_images);
        Ok(taken.cloned().collect())
    }

    fn keep_step(&self, owner: &Owner, step: &KeptStep) -> Result<(), CatalogError> {
        let mut records = self.enter("keep_step")?;
        records.image_steps.insert((owner.clone(), step.key.clone()), step.clone());
        Ok(())
    }

    fn kept_steps(&self, owner: &Owner) -> Result<Vec<KeptStep>, CatalogError> {
        let records = self.enter("kept_steps")?;
        let own = records.image_steps.iter().filter(|((whose, _), _)| whose == owner);
        let mut steps: Vec<KeptStep> = own.map(|(_, step)| step.clone()).collect();
        steps.sort_by(|one, other| (one.used_unix_ms, &one.key).cmp(&(other.used_unix_ms, &other.key)));
        Ok(steps)
    }

    fn forget_step(&self, owner: &Owner, key: &str) -> Result<(), CatalogError> {
        self.enter("forget_step")?.image_steps.remove(&(owner.clone(), key.to_owned()));
        Ok(())
    }
}

impl Records {
    fn stored_image(&self, record: &ImageRecord) -> Result<&ImageRecord, CatalogError> {
        let stored = self.images.get(&(record.owner.clone(), record.id.clone()));
        stored.ok_or_else(|| failure(CatalogErrorKind::NotFound, &record.id))
    }

    /// True if another image of the owner has the name.
    fn has_named_image(&self, record: &ImageRecord) -> bool {
        let same = |known: &ImageRecord| {
            known.owner == record.owner && known.id != record.id && known.name == record.name
        };
        record.name.is_some() && self.images.values().any(same)
    }
}

fn check_tags(record: &ImageRecord) {
    for (name, tag) in &record.tags {
        assert!(record.builds.contains_key(&tag.build), "the tag {name} names a build that is not there");
    }
}

//! Removes what an earlier process left of its builds: snapshots that no record names, sandboxes,
//! and builds that had begun.

use std::collections::{BTreeMap, BTreeSet};

use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{Owner, SandboxId, SandboxRecord, SnapshotId};

use crate::error::sentence;
use crate::ports::blocking;
use crate::{Engine, EngineError, StoppedFiles};

const ABANDONED: &str = "the server stopped while it was built: build it again";

/// Things of an earlier process that nobody needs.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    snapshots: BTreeMap<Owner, Vec<SnapshotId>>,
    sandboxes: Vec<(Owner, SandboxId)>,
}

impl Engine {
    /// Looks for what builds of an earlier process left, and writes down that they failed. Nothing
    /// may be built yet: what this process makes is no leftover.
    pub(crate) async fn find_leftovers(&self, records: &[SandboxRecord]) -> Result<Leftovers, CatalogError> {
        let building = records.iter().filter(|record| record.build.is_some());
        let sandboxes = building.map(|record| (record.owner.clone(), record.id.clone())).collect();
        let engine = self.inner();
        let snapshots = blocking(move || {
            let catalog = engine.shared.parts.catalog.as_ref();
            for mut image in catalog.images_being_built()? {
                let before = image.clone();
                image.abandon(engine.node(), ABANDONED);
                if image != before {
                    image.generation += 1;
                    catalog.update_image(&image)?;
                }
            }
            loose_snapshots(&engine, catalog)
        });
        Ok(Leftovers { snapshots: snapshots.await?, sandboxes })
    }

    pub(crate) async fn clear_leftovers(&self, leftovers: Leftovers) {
        for (owner, id) in leftovers.sandboxes {
            match self.itself(&owner).sandbox(&id).stop(StoppedFiles::Delete).await {
                Ok(_) | Err(EngineError::NotFound { .. } | EngineError::ShuttingDown) => {}
                Err(error) => {
                    self.fault();
                    tracing::warn!(sandbox.id = %id, error = sentence(&error), "the sandbox of a build could not be removed");
                }
            }
        }
        for (owner, snapshots) in leftovers.snapshots {
            self.itself(&owner).images().delete(snapshots).await;
        }
    }
}

/// Snapshots that were taken for images and that none names. Of an owner whose images cannot be
/// read there are none: all that they name would be lost.
fn loose_snapshots(
    engine: &Engine,
    catalog: &dyn Catalog,
) -> Result<BTreeMap<Owner, Vec<SnapshotId>>, CatalogError> {
    let mut loose: BTreeMap<Owner, Vec<SnapshotId>> = BTreeMap::new();
    for row in catalog.snapshots_of_images(engine.node())? {
        loose.entry(row.owner).or_default().push(row.id);
    }
    loose.retain(|owner, ids| match needed(catalog, owner) {
        Ok(needed) => {
            ids.retain(|id| !needed.contains(id));
            !ids.is_empty()
        }
        Err(error) => {
            engine.fault();
            tracing::error!(%owner, error = sentence(&error), "images cannot be read");
            false
        }
    });
    Ok(loose)
}

fn needed(catalog: &dyn Catalog, owner: &Owner) -> Result<BTreeSet<SnapshotId>, CatalogError> {
    let mut needed: BTreeSet<SnapshotId> =
        catalog.kept_steps(owner)?.into_iter().map(|step| step.snapshot).collect();
    for image in catalog.images(owner)? {
        needed.extend(image.snapshots().into_iter().cloned());
    }
    Ok(needed)
}

//! Changing the record of an image: read, change, write, and again if somebody else wrote
//! meanwhile.

use warren_core::catalog::{Catalog, CatalogError, CatalogErrorKind};
use warren_core::{ImageDenied, ImageRecord, Owner, SnapshotId};

use super::{ImageError, Images};
use crate::{EngineError, EngineStep};

/// The most images of one owner.
const MOST_IMAGES: u64 = 1000;
/// The most bytes that the records of an owner's images may take.
const MOST_BYTES: u64 = 16 << 20;

/// How often a change is made again because somebody else wrote first.
const MOST_ATTEMPTS: usize = 100;

/// The effect of a change on the image itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    Goes,
}

/// A change that was written.
struct Changed<T> {
    outcome: T,
    /// Snapshots that the image names no more.
    gone: Vec<SnapshotId>,
}

impl Images {
    /// Changes an image, found by name or id: all of it holds once it is on disk, or nothing of it.
    /// The change may be made more than once. Snapshots that the image names no more are deleted.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        name: &str,
        change: impl Fn(&mut ImageRecord) -> Result<(Fate, T), ImageDenied> + Send + 'static,
    ) -> Result<T, ImageError> {
        let (owner, name) = (self.owner().clone(), name.to_owned());
        self.written(move |catalog| match attempts(|| once(catalog, &owner, &name, &change))? {
            Some(changed) => Ok(changed),
            None => Err(ImageError::NotFound { name: name.clone() }),
        })
        .await
    }

    /// As [`Images::change`], for an image that is made if there is none of its name.
    pub(super) async fn change_or_make<T: Send + 'static>(
        &self,
        fresh: ImageRecord,
        change: impl Fn(&mut ImageRecord) -> Result<T, ImageDenied> + Send + 'static,
    ) -> Result<T, ImageError> {
        let staying = move |image: &mut ImageRecord| Ok((Fate::Stays, change(image)?));
        self.written(move |catalog| {
            attempts(|| {
                let known = match &fresh.name {
                    Some(name) => once(catalog, &fresh.owner, name, &staying)?,
                    None => None,
                };
                match known {
                    Some(changed) => Ok(changed),
                    None => make(catalog, &fresh, &staying),
                }
            })
        })
        .await
    }

    async fn written<T: Send + 'static>(
        &self,
        write: impl FnOnce(&dyn Catalog) -> Result<Changed<T>, ImageError> + Send + 'static,
    ) -> Result<T, ImageError> {
        self.engine().may_change()?;
        let Changed { outcome, gone } = self.engine().catalog(write).await?;
        if !gone.is_empty() {
            (self.parts().passed)(EngineStep::ImageForgotten);
        }
        self.discard(gone);
        Ok(outcome)
    }
}

fn attempts<T>(mut once: impl FnMut() -> Result<T, ImageError>) -> Result<T, ImageError> {
    for _ in 1..MOST_ATTEMPTS {
        match once() {
            Err(ImageError::Engine(EngineError::Catalog(error))) if is_overtaken(&error) => {}
            done => return done,
        }
    }
    once()
}

/// True if somebody else changed or made the image meanwhile.
fn is_overtaken(error: &CatalogError) -> bool {
    let kinds = [CatalogErrorKind::Stale, CatalogErrorKind::AlreadyExists, CatalogErrorKind::NotFound];
    kinds.contains(&error.kind)
}

/// `None` if there is no such image.
fn once<T>(
    catalog: &dyn Catalog,
    owner: &Owner,
    name: &str,
    change: impl Fn(&mut ImageRecord) -> Result<(Fate, T), ImageDenied>,
) -> Result<Option<Changed<T>>, ImageError> {
    let Some(before) = catalog.image(owner, name)? else { return Ok(None) };
    let mut after = before.clone();
    let (fate, outcome) =
        change(&mut after).map_err(|denied| ImageError::Denied { name: name.to_owned(), denied })?;
    match fate {
        Fate::Goes => catalog.remove_image(&before)?,
        Fate::Stays if after == before => {}
        Fate::Stays => {
            check_room(catalog, Some(&before), &after)?;
            after.generation += 1;
            catalog.update_image(&after)?;
        }
    }
    let kept = if fate == Fate::Goes { Default::default() } else { after.snapshots() };
    let gone = before.snapshots().into_iter().filter(|id| !kept.contains(id)).cloned().collect();
    Ok(Some(Changed { outcome, gone }))
}

fn make<T>(
    catalog: &dyn Catalog,
    fresh: &ImageRecord,
    change: impl Fn(&mut ImageRecord) -> Result<(Fate, T), ImageDenied>,
) -> Result<Changed<T>, ImageError> {
    let mut image = fresh.clone();
    let name = image.name.clone().unwrap_or_else(|| image.id.to_string());
    let (_, outcome) = change(&mut image).map_err(|denied| ImageError::Denied { name, denied })?;
    check_room(catalog, None, &image)?;
    catalog.insert_image(&image)?;
    Ok(Changed { outcome, gone: Vec::new() })
}

fn check_room(
    catalog: &dyn Catalog,
    before: Option<&ImageRecord>,
    after: &ImageRecord,
) -> Result<(), ImageError> {
    let size = |record: &ImageRecord| serde_json::to_vec(record).map_or(u64::MAX, |text| text.len() as u64);
    let room = catalog.room_of_images(&after.owner)?;
    if before.is_none() && room.images >= MOST_IMAGES {
        return Err(ImageError::TooMany { most: MOST_IMAGES });
    }
    let (old, new) = (before.map_or(0, size), size(after));
    let fits = new <= old || room.bytes.saturating_sub(old).saturating_add(new) <= MOST_BYTES;
    if fits { Ok(()) } else { Err(ImageError::NoRoom) }
}

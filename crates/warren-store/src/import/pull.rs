//! Pulls an image from its registry: its documents, then its layers, each applied while it arrives.
//!
//! The registry's owner says what the documents and layers are. So each is checked against the
//! digest that names it before the template appears, the archives are read as hostile as any
//! other, and what is too large is refused before the first layer is asked for.

mod arrival;
mod fetch;

use std::path::Path;
use std::sync::Arc;
use std::{rc::Rc, thread};

use warren_core::ImageSource;

use super::error::{ImageError, ImportError};
use super::extract::Extractor;
use super::image::{self, Found, Layer, LayerBytes};
use super::limits::Meter;
use super::stream::Section;
use super::{Content, Job};
use crate::blobs::Blobs;
use crate::digest::Digest;
use crate::pulled::PulledImage;

use arrival::Arrival;

pub(super) use arrival::Arriving;
use fetch::Fetch;

/// An image whose documents are there.
struct Pull {
    blobs: Blobs,
    found: Found,
}

impl Job<'_, '_> {
    /// Pulls an image. `blobs` is where layers are kept.
    pub(super) fn pull(&mut self, source: &dyn ImageSource, blobs: &Path) -> Result<Content, ImportError> {
        let failed = |error| ImportError::Blobs { path: blobs.to_owned(), source: error };
        let found = image::of_registry(source, self.meter)?;
        let pull = Pull { blobs: Blobs::open(blobs).map_err(failed)?, found };
        pull.check(self.meter)?;
        let (layers, fetch) = pull.layers().map_err(failed)?;
        let pulled = PulledImage { address: source.address().to_string(), layers: pull.digests() };
        pulled.write(self.staging.path()).map_err(ImportError::Spool)?;
        let image = image::Image::of(&pull.found, layers);
        let mut extractor = self.extractor();
        let applied = thread::scope(|threads| {
            for _ in 0..fetch.workers() {
                threads.spawn(|| fetch.work(source));
            }
            let applied = apply(image, &pull.blobs, &mut extractor);
            fetch.stop();
            applied
        });
        if matches!(
            &applied,
            Err(ImportError::Stale(_) | ImportError::Image(ImageError::DigestMismatch { .. }))
        ) {
            // Where one layer is wrong, so may be the others.
            fetch.discard();
        }
        applied
    }
}

fn apply(
    image: image::Image,
    blobs: &Blobs,
    extractor: &mut Extractor<'_, '_>,
) -> Result<Content, ImportError> {
    image.apply_each(extractor, |layer, outcome| {
        let error = match (&layer.content, outcome) {
            (LayerBytes::Arriving(arriving), Ok(())) => return arriving.keep().map_err(ImportError::Spool),
            (LayerBytes::Here(_), Ok(())) => return Ok(()),
            (_, Err(error)) => error,
        };
        let is_wrong = matches!(error, ImportError::Image(ImageError::DigestMismatch { .. }));
        match (&layer.content, &layer.digest) {
            (LayerBytes::Arriving(arriving), _) => match arriving.failure() {
                Some(failure) => Err(ImportError::Registry(failure)),
                None if is_wrong && arriving.is_resumed() => Err(ImportError::Stale(Box::new(error))),
                None => Err(error),
            },
            (LayerBytes::Here(_), Some(digest)) if is_wrong => {
                blobs.discard(digest);
                Err(ImportError::Stale(Box::new(error)))
            }
            _ => Err(error),
        }
    })
}

impl Pull {
    /// Refuses what has no room.
    fn check(&self, meter: &Meter<'_>) -> Result<(), ImportError> {
        let sizes = self.found.layers.iter().map(|layer| layer.size);
        let total = sizes.fold(0, u64::saturating_add);
        meter.check_size(total)?;
        let missing =
            self.found.layers.iter().filter(|layer| self.blobs.find(&layer.digest, layer.size).is_none());
        Ok(meter.make_room(missing.map(|layer| layer.size).sum())?)
    }

    /// The layers, lowest first, and what there is to fetch of them. One that occurs twice is
    /// fetched once.
    fn layers(&self) -> std::io::Result<(Vec<Layer>, Fetch)> {
        let (mut layers, mut arrivals) = (Vec::new(), Vec::<Arc<Arrival>>::new());
        for wanted in &self.found.layers {
            let digest = &wanted.digest;
            let content = if let Some(known) = arrivals.iter().find(|arrival| arrival.digest == *digest) {
                LayerBytes::Arriving(Arriving::new(Arc::clone(known)))
            } else if let Some(file) = self.blobs.find(digest, wanted.size) {
                LayerBytes::Here(Section::whole(Rc::new(file))?)
            } else {
                let arrival = Arrival::new(digest.clone(), wanted.size, self.blobs.begin(digest)?)?;
                arrivals.push(Arc::new(arrival));
                LayerBytes::Arriving(Arriving::new(Arc::clone(&arrivals[arrivals.len() - 1])))
            };
            layers.push(Layer { name: digest.to_string(), content, digest: Some(digest.clone()) });
        }
        Ok((layers, Fetch::new(arrivals)))
    }

    fn digests(&self) -> Vec<Digest> {
        self.found.layers.iter().map(|layer| layer.digest.clone()).collect()
    }
}

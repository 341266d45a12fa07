//! Snapshots of images: taken of sandboxes, and deleted when no image names them.

use warren_core::{
    BuildId, Built, DEFAULT_TAG, ImageContext, ImageId, ImageOrigin, ImageRecord, ImageRef, SandboxId,
    SnapshotId, SnapshotReason,
};

use super::{ImageError, Images};
use crate::base::image_refused;
use crate::cell::CaptureOrder;
use crate::error::{Field, sentence};
use crate::{Engine, EngineError, EngineStep, Taken};

/// The state of a sandbox that became a build of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    pub taken: Taken,
    pub image: ImageId,
    pub name: Option<String>,
    pub tag: String,
}

impl Images {
    /// Captures the files of a sandbox, which goes on, as a build of an image: of the one of that
    /// name, or of a new one. A sandbox that begins with it goes on where this one was.
    pub async fn capture(&self, sandbox: &SandboxId, name: Option<ImageRef>) -> Result<Captured, ImageError> {
        let record = self.engine().record_of(self.owner(), sandbox).await?;
        image_refused(Field::Image, &record.spec, "an image of ours").map_or(Ok(()), Err)?;
        let taken = self.take(sandbox, true).await?;
        (self.parts().passed)(EngineStep::ImageTaken);
        let spec = record.spec;
        let (template, env, user, workdir) = (spec.template, spec.env, spec.user, spec.workdir);
        let built = Built {
            snapshot: taken.snapshot.id.clone(),
            sandbox: sandbox.clone(),
            context: ImageContext { template, env, user, workdir },
            start: record.start,
        };
        let (name, tag) = name.map(|name| (name.name, name.tag)).unzip();
        let (tag, now) = (tag.flatten().unwrap_or_else(|| DEFAULT_TAG.to_owned()), self.now());
        let fresh = self.fresh(name, ImageOrigin::Sandbox);
        let (build, tags) = (BuildId::from_random(self.parts().random.bits()), [tag.clone()]);
        let added = self.change_or_make(fresh, move |image| {
            image.add(build.clone(), built.clone(), &tags, now)?;
            Ok((image.id.clone(), image.name.clone()))
        });
        match added.await {
            Ok((image, name)) => {
                (self.parts().passed)(EngineStep::ImageWritten);
                Ok(Captured { taken, image, name, tag })
            }
            Err(error) => {
                self.discard(vec![taken.snapshot.id]);
                Err(error)
            }
        }
    }

    /// A new image without any build.
    pub(super) fn fresh(&self, name: Option<String>, origin: ImageOrigin) -> ImageRecord {
        let id = ImageId::from_random(self.parts().random.bits());
        ImageRecord::new(id, self.owner().clone(), name, origin, self.now())
    }

    /// Captures a sandbox, under a name that keeps the snapshot when the sandbox is gone.
    pub(super) async fn take(&self, sandbox: &SandboxId, durable: bool) -> Result<Taken, EngineError> {
        let name = format!("image {}", BuildId::from_random(self.parts().random.bits()));
        let asked = CaptureOrder::asked(SnapshotReason::Image);
        self.engine().take(self.owner(), sandbox, CaptureOrder { name: Some(name), durable, ..asked }).await
    }

    /// Deletes snapshots that no image needs, in the background. One that stays although it should
    /// not is cleared away by the next start.
    pub(super) fn discard(&self, snapshots: Vec<SnapshotId>) {
        if snapshots.is_empty() {
            return;
        }
        let images = self.inner();
        tokio::spawn(async move { images.delete(snapshots).await });
    }

    pub(super) async fn delete(&self, snapshots: Vec<SnapshotId>) {
        for id in snapshots {
            match self.access.snapshots().delete(&id).await {
                Ok(()) | Err(EngineError::NotFound { .. } | EngineError::ShuttingDown) => {}
                Err(error) => failed(self.engine(), &id, &error),
            }
        }
    }
}

fn failed(engine: &Engine, id: &SnapshotId, error: &EngineError) {
    engine.fault();
    tracing::warn!(snapshot.id = %id, error = sentence(error), "an image's snapshot could not be deleted");
}

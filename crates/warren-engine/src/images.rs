//! Images of owners: built of steps, or kept from sandboxes, and what sandboxes begin with.
//!
//! ```text
//! announce ──► begin ──► waits for room ──► the base, or the state after the last known step
//!                                                ──► steps ──► start command ──► snapshot ──► tags
//! ```
//!
//! A build (`build`) does its steps in a sandbox of its own (`work`), and a snapshot of that is the
//! image. After each step the state is kept, so that a later build that begins with the same steps
//! (`recipe`) goes on from there. Nobody waits for a build: it goes on when its client is gone.
//!
//! A snapshot is taken before a record names it, and deleted after no record does. What a crash
//! leaves in between, and the sandboxes of builds, the next start clears away (`clear`).

mod build;
mod capture;
mod change;
mod clear;
mod command;
mod recipe;
mod start;
mod work;

use std::io::Read;
use std::sync::Arc;

use warren_core::{
    BuildFiles, BuildId, ByteSize, Cpus, FilesHash, ImageContext, ImageDenied, ImageId, ImageRecord,
    ImageRef, Owner, SnapshotId, StartCommands, TemplateName,
};

pub use self::build::NewBuild;
pub use self::capture::Captured;
pub(crate) use self::clear::Leftovers;
pub use self::recipe::{Recipe, RecipeStep};
pub use crate::error::{ImageError, Unbuilt};
pub use crate::state::{BuildLog, LogLevel, LogLine, WantedLines};

use self::change::Fate;
use crate::ports::blocking;
use crate::state::Builds;
use crate::work_kind::WorkKind;
use crate::{Access, Engine, EngineError, Parts};

/// The images of the caller's owner.
#[derive(Debug, Clone)]
pub struct Images {
    access: Access,
}

/// All that a sandbox begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    pub context: ImageContext,
    /// A state on top of the template.
    pub from: Option<SnapshotId>,
    pub start: Option<StartCommands>,
}

/// An image that sandboxes can begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundImage {
    pub id: ImageId,
    pub name: Option<String>,
    pub beginning: Beginning,
    /// Processors and memory of its sandboxes, where that was said.
    pub cpus: Option<Cpus>,
    pub memory: Option<ByteSize>,
}

impl Beginning {
    /// A template as it is.
    pub fn of_template(template: TemplateName) -> Self {
        let context = ImageContext { template, env: Default::default(), user: None, workdir: None };
        Self { context, from: None, start: None }
    }
}

impl Access {
    pub fn images(&self) -> Images {
        Images { access: self.clone() }
    }
}

impl Images {
    /// All of them, the newest first.
    pub async fn list(&self) -> Result<Vec<ImageRecord>, ImageError> {
        let owner = self.owner().clone();
        Ok(self.engine().catalog(move |catalog| catalog.images(&owner)).await?)
    }

    /// By name or by id.
    pub async fn get(&self, name: &str) -> Result<ImageRecord, ImageError> {
        let found = self.look(name).await?;
        found.ok_or_else(|| ImageError::NotFound { name: name.to_owned() })
    }

    async fn look(&self, name: &str) -> Result<Option<ImageRecord>, ImageError> {
        let (owner, name) = (self.owner().clone(), name.to_owned());
        Ok(self.engine().catalog(move |catalog| catalog.image(&owner, &name)).await?)
    }

    /// The image of a reference, for a sandbox that is to begin with it; `None` if the owner has
    /// none of that name. Another owner's is one that does not exist.
    pub async fn find(&self, reference: &ImageRef) -> Result<Option<FoundImage>, ImageError> {
        let missing = || ImageError::NotFound { name: reference.name.clone() };
        if !reference.may_be_of(self.owner()) {
            return Err(missing());
        }
        let Some(image) = self.look(&reference.name).await? else {
            return if reference.owner.is_some() { Err(missing()) } else { Ok(None) };
        };
        let tag = reference.tag_or_default();
        let built = image.built(tag).ok_or_else(|| ImageError::NotBuilt {
            name: reference.name.clone(),
            tag: tag.to_owned(),
            why: Unbuilt::of(&image),
        })?;
        let beginning = Beginning {
            context: built.context.clone(),
            from: Some(built.snapshot.clone()),
            start: built.start.clone(),
        };
        self.builds().count_use(&image, self.now());
        let ImageRecord { id, name, cpus, memory, .. } = image;
        Ok(Some(FoundImage { id, name, beginning, cpus, memory }))
    }

    /// How often an image was used since the engine began, and when last.
    pub fn uses_of(&self, image: &ImageRecord) -> (u64, Option<u64>) {
        self.builds().uses_of(image)
    }

    /// The log of a build that goes on, or ended a while ago.
    pub fn log(&self, build: &BuildId) -> Option<Arc<BuildLog>> {
        self.builds().find(self.owner(), build)
    }

    /// More tags for the build that a reference names. Says which build that is.
    pub async fn tag(&self, target: &ImageRef, tags: Vec<String>) -> Result<BuildId, ImageError> {
        let (tag, now) = (target.tag_or_default().to_owned(), self.now());
        self.change(&target.name, move |image| Ok((Fate::Stays, image.tag(&tag, &tags, now)?))).await
    }

    pub async fn untag(&self, name: &str, tags: Vec<String>) -> Result<(), ImageError> {
        let now = self.now();
        self.change(name, move |image| Ok((Fate::Stays, image.untag(&tags, now)?))).await
    }

    /// Removes an image; of a reference with a tag only that tag, and the image with its last.
    pub async fn remove(&self, reference: &ImageRef) -> Result<(), ImageError> {
        let (tag, now) = (reference.tag.clone(), self.now());
        let remove = move |image: &mut ImageRecord| -> Result<(Fate, ()), ImageDenied> {
            let Some(tag) = &tag else { return Ok((Fate::Goes, ())) };
            image.untag(std::slice::from_ref(tag), now)?;
            Ok((if image.tags.is_empty() { Fate::Goes } else { Fate::Stays }, ()))
        };
        self.change(&reference.name, remove).await
    }

    /// True if the files for a build were sent already.
    pub async fn has_files(&self, hash: &FilesHash) -> bool {
        let (files, owner, hash) = self.files(hash);
        blocking(move || files.has(&owner, &hash)).await
    }

    /// Keeps files for builds, at the pace at which they come.
    pub async fn keep_files(
        &self,
        hash: &FilesHash,
        mut source: impl Read + Send + 'static,
    ) -> Result<(), ImageError> {
        self.engine().may_change()?;
        let place = self.access.place_for(WorkKind::Transfer).await?;
        let (files, owner, hash) = self.files(hash);
        let kept = place.work(move || files.keep(&owner, &hash, &mut source)).await;
        kept.map_err(EngineError::NoThread)?.map_err(ImageError::Files)
    }

    fn files(&self, hash: &FilesHash) -> (Arc<dyn BuildFiles>, Owner, FilesHash) {
        (Arc::clone(&self.parts().build_files), self.owner().clone(), hash.clone())
    }

    fn engine(&self) -> &Engine {
        &self.access.engine
    }

    fn owner(&self) -> &Owner {
        self.access.owner()
    }

    fn parts(&self) -> &Parts {
        &self.engine().shared.parts
    }

    fn builds(&self) -> &Builds {
        &self.engine().shared.builds
    }

    fn now(&self) -> u64 {
        self.parts().clock.unix_ms()
    }

    /// The same, held by a task of the engine's, which does not keep the engine going.
    fn inner(&self) -> Self {
        let Access { engine, caller } = &self.access;
        Self { access: Access { engine: engine.inner(), caller: Arc::clone(caller) } }
    }
}

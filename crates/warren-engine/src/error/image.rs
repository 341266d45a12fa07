use std::io;

use warren_core::catalog::CatalogError;
use warren_core::{BuildFailure, BuildOutcome, BuildStepError, ImageDenied, ImageRecord, error_chain};

use crate::EngineError;

/// Why something asked of images was not done.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It does not exist, or belongs to somebody else: the two cannot be told apart.
    #[error("there is no image `{name}`")]
    NotFound { name: String },
    #[error("there is no image `{name}` with the tag `{tag}`: {why}")]
    NotBuilt { name: String, tag: String, why: Unbuilt },
    #[error("`{name}`: {denied}")]
    Denied { name: String, denied: ImageDenied },
    #[error("there are {most} images already: delete some")]
    TooMany { most: u64 },
    #[error("your images take too much room with all their variables: delete some")]
    NoRoom,
    #[error("{most} builds of yours go on or wait already: wait for one of them")]
    TooManyBuilds { most: usize },
    #[error("a build has up to {most} steps")]
    TooManySteps { most: usize },
    /// Steps are counted from zero.
    #[error("step {index}")]
    Step {
        index: usize,
        #[source]
        source: BuildStepError,
    },
    #[error("the ready command did not succeed within {seconds} s: build the image with one that does")]
    NotReady { seconds: u64 },
    #[error("the files could not be kept")]
    Files(#[source] io::Error),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ImageError {
    /// The error in words that callers may read, as [`EngineError::told`].
    pub fn told(&self) -> String {
        match self {
            Self::Engine(error) => error.told(),
            Self::Files(_) => self.to_string(),
            error => error_chain(error),
        }
    }
}

impl From<CatalogError> for ImageError {
    fn from(error: CatalogError) -> Self {
        Self::Engine(error.into())
    }
}

/// Why there is nothing to begin with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unbuilt {
    #[error("its last build failed: {}", .0.message)]
    Failed(Box<BuildFailure>),
    #[error("it is not built yet")]
    NotYet,
    #[error("it has no finished build of that tag")]
    NoSuchTag,
}

impl Unbuilt {
    pub(crate) fn of(image: &ImageRecord) -> Self {
        match image.newest().map(|(_, build)| &build.outcome) {
            Some(BuildOutcome::Failed(failure)) => Self::Failed(Box::new(failure.clone())),
            Some(BuildOutcome::Waiting | BuildOutcome::Begun { .. }) => Self::NotYet,
            Some(BuildOutcome::Ready(_)) | None => Self::NoSuchTag,
        }
    }
}

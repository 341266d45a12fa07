//! Images: states of files under names, that sandboxes begin with.
//!
//! An image has builds, and tags that each name one of them. A build is made of steps on top of a
//! template or of another image, or it is the state of a sandbox that was kept. What no tag names
//! any more is forgotten, and its snapshot with it.

mod files;
mod record;
mod reference;
mod step;

pub use files::{BuildFiles, FilesHash, FilesHashError};
pub use record::{
    BuildFailure, BuildOutcome, BuildRecord, Built, ImageContext, ImageDenied, ImageOrigin, ImageRecord,
    KeptStep, StartCommands, Tag, UnknownUser,
};
pub use reference::{DEFAULT_TAG, ImageId, ImageRef, ImageRefError, check_tag};
pub use step::{BuildStep, BuildStepError, CopyFiles};

//! Helpers that Warren's tests share. A dev-dependency only: nothing here is shipped.
//!
//! [`ScratchData`] is a data directory that a test owns. [`Census`] counts what sandboxes leave
//! behind on the machine, so that a test can show that it left nothing. [`FakeIsolation`] and the
//! other fakes implement the engine's ports, and are stricter than the real ones. Rules that no
//! compiler checks (which crate may use which, how long a file may be, where `unsafe` is allowed)
//! are in `tests/tidy/`.

mod build_files;
mod catalog;
mod census;
pub mod conformance;
mod delta;
mod errors;
mod gate;
mod groups;
mod guest;
mod isolation;
mod layers;
mod networks;
mod scratch;
mod world;

pub use build_files::FakeBuildFiles;
pub use catalog::{
    MemoryCatalog, catalog_conformance, sample_entry, sample_image, sample_key, sample_node, sample_sandbox,
    sample_secret, sample_session, sample_snapshot,
};
pub use census::Census;
pub use errors::{assert_error_codes, assert_error_column};
pub use isolation::{Call, FakeIsolation, Hold, Standing};
pub use layers::FakeLayers;
pub use networks::FakeNetworks;
pub use scratch::ScratchData;
pub use world::{FakeClock, FakeRandom, FakeTemplates};

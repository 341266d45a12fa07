//! What Warren's tests share. A dev-dependency only: nothing here is shipped.
//!
//! [`ScratchData`] is a data directory that a test owns. [`Census`] counts what sandboxes leave behind on the machine, so
//! that every test which makes some can show that it left nothing. The rules of the house that no compiler knows
//! (which crate may use which, how long a file may be, where `unsafe` may stand) are in `tests/tidy/`.

mod census;
mod groups;
mod scratch;

pub use census::Census;
pub use scratch::ScratchData;

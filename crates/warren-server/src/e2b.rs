//! The E2B protocol: agents that were written for E2B run here unchanged.
//!
//! It has two halves. `control` is the REST interface that makes, finds and ends sandboxes; it is at `/e2b` and at the root of `api.DOMAIN`
//! and of a listener of its own. `envd` is what a client says to one sandbox, at that sandbox's port 49983: nothing in the sandbox listens
//! there, the server answers. Both only translate: [`warren_e2b`] says how things are written, the engine does them. What E2B knows of a
//! sandbox and the engine does not is in its `traits`.

pub(crate) mod control;
pub(crate) mod envd;
mod logs;
pub(crate) mod metrics;
pub(crate) mod network;
pub(crate) mod templates;
pub(crate) mod tokens;
mod traits;
pub(crate) mod wake;

use warren_core::SandboxRecord;

pub(crate) use traits::{Traffic, Traits};

/// Variables that tell the processes of a sandbox where they run, if it was made through E2B.
pub(crate) fn own_env(record: &SandboxRecord) -> Vec<(&'static str, String)> {
    if Traits::are_written(record) { Traits::own_env(record).into() } else { Vec::new() }
}
/// The name that the face acts by where nobody shows a key.
pub(crate) const BY: &str = "e2b";

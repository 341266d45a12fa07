use warren_core::{Owner, SandboxId};

use super::keyed::Keyed;
use super::thinking::Thinking;

/// What the engine remembers of sessions beside the catalog; all of it can be lost.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Those who act on a sandbox for the sake of one of its sessions do so one after the other.
    pub(crate) turns: Keyed<SandboxId>,
    /// Those who ask for one chat's sandbox, likewise.
    pub(crate) chats: Keyed<(Owner, String)>,
    pub(crate) thinking: Thinking,
}

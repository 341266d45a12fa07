use warren_core::{Owner, SandboxId};

use super::keyed::Keyed;
use super::thinking::Thinking;

/// The engine's knowledge of sessions beside the catalog; all of it can be lost.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Calls that act on a sandbox for one of its sessions take turns.
    pub(crate) turns: Keyed<SandboxId>,
    /// Calls that ask for one chat's sandbox take turns, too.
    pub(crate) chats: Keyed<(Owner, String)>,
    pub(crate) thinking: Thinking,
}

use std::collections::BTreeSet;

use super::CatalogError;
use crate::id::SandboxId;
use crate::network::Destination;
use crate::owner::Owner;

/// Where sandboxes have been, as far as somebody wrote it down. Forgotten together with the
/// sandbox's record. Changes are acknowledged with [`super::Durability::Process`].
pub trait NetworkCatalog: Send + Sync {
    fn reached(&self, owner: &Owner, sandbox: &SandboxId) -> Result<BTreeSet<Destination>, CatalogError>;

    /// Adds destinations until there are `most`. The sandbox's record must be there.
    fn add_reached(
        &self,
        sandbox: &SandboxId,
        destinations: &BTreeSet<Destination>,
        most: u32,
    ) -> Result<(), CatalogError>;

    fn forget_reached(&self, sandbox: &SandboxId) -> Result<(), CatalogError>;
}

use super::CatalogError;
use crate::id::SandboxId;
use crate::owner::Owner;
use crate::port::{PortRecord, PortSettings};

/// Settings of sandboxes' ports. Forgotten together with the sandbox's record.
pub trait PortCatalog: Send + Sync {
    /// Every port of any sandbox that has settings of its own.
    fn ports(&self) -> Result<Vec<PortRecord>, CatalogError>;

    /// Sets what holds for a port; the default removes what was set. The sandbox's record must be
    /// there. Acknowledged with [`super::Durability::Disk`].
    fn set_port(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
        port: u16,
        settings: &PortSettings,
    ) -> Result<(), CatalogError>;
}

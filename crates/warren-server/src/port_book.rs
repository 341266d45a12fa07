use std::collections::BTreeMap;

use parking_lot::RwLock;
use warren_core::catalog::{CatalogError, PortCatalog};
use warren_core::{Owner, PortSettings, SandboxId};
use warren_face::error::{ApiError, Code};

/// Ports of one sandbox that may have settings.
const MOST_PORTS: usize = 256;

/// Owners' settings of their ports, as the catalog has them. They outlive the server, and go with
/// the sandbox's record.
#[derive(Debug)]
pub(crate) struct PortBook {
    sandboxes: RwLock<Sandboxes>,
}

type Sandboxes = BTreeMap<SandboxId, BTreeMap<u16, PortSettings>>;

/// Why settings were not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PortBookError {
    #[error("settings of {MOST_PORTS} ports are remembered for one sandbox, and no more")]
    TooMany,
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

impl PortBook {
    /// Blocks.
    pub(crate) fn load<C: PortCatalog + ?Sized>(catalog: &C) -> Result<Self, CatalogError> {
        Ok(Self { sandboxes: RwLock::new(read(catalog)?) })
    }

    pub(crate) fn of(&self, sandbox: &SandboxId, port: u16) -> PortSettings {
        let sandboxes = self.sandboxes.read();
        sandboxes.get(sandbox).and_then(|ports| ports.get(&port)).cloned().unwrap_or_default()
    }

    /// Settings hold once they are on disk. Those of sandboxes that are forgotten go with this.
    /// Blocks.
    pub(crate) fn set<C: PortCatalog + ?Sized>(
        &self,
        catalog: &C,
        (owner, sandbox): (&Owner, &SandboxId),
        port: u16,
        settings: &PortSettings,
    ) -> Result<(), PortBookError> {
        let mut current = self.sandboxes.write();
        let known = current.get(sandbox);
        let is_new =
            *settings != PortSettings::default() && !known.is_some_and(|ports| ports.contains_key(&port));
        if is_new && known.is_some_and(|ports| ports.len() >= MOST_PORTS) {
            return Err(PortBookError::TooMany);
        }
        catalog.set_port(owner, sandbox, port, settings)?;
        *current = read(catalog)?;
        Ok(())
    }
}

fn read<C: PortCatalog + ?Sized>(catalog: &C) -> Result<Sandboxes, CatalogError> {
    let mut sandboxes = Sandboxes::new();
    for record in catalog.ports()? {
        sandboxes.entry(record.sandbox).or_default().insert(record.port, record.settings);
    }
    Ok(sandboxes)
}

impl From<PortBookError> for ApiError {
    fn from(error: PortBookError) -> Self {
        match error {
            PortBookError::TooMany => Self::new(Code::SandboxExhausted, error.to_string()),
            PortBookError::Catalog(source) => source.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use warren_core::SandboxRecord;
    use warren_core::catalog::{NewRecords, SandboxCatalog as _};
    use warren_testkit::{MemoryCatalog, sample_sandbox, sample_session};

    use super::*;

    fn public() -> PortSettings {
        PortSettings { public: true, host: None }
    }

    fn with_a_sandbox() -> (MemoryCatalog, SandboxRecord) {
        let (catalog, sandbox) = (MemoryCatalog::new(), sample_sandbox(&Owner::first(), 1));
        let session = sample_session(&sandbox, 1);
        catalog.insert(NewRecords { sandbox: sandbox.clone(), session, idempotency: None }).unwrap();
        (catalog, sandbox)
    }

    #[test]
    fn what_was_said_of_a_port_is_known_to_the_next_server() {
        let (catalog, SandboxRecord { id, owner, .. }) = with_a_sandbox();
        let book = PortBook::load(&catalog).unwrap();
        assert_eq!(book.of(&id, 80), PortSettings::default());
        book.set(&catalog, (&owner, &id), 80, &public()).unwrap();
        let next = PortBook::load(&catalog).unwrap();
        assert_eq!((next.of(&id, 80), next.of(&id, 81).public), (public(), false));
        next.set(&catalog, (&owner, &id), 80, &PortSettings::default()).unwrap();
        assert_eq!((next.of(&id, 80).public, catalog.ports().unwrap()), (false, Vec::new()));
    }

    #[test]
    fn one_sandbox_has_settings_of_so_many_ports() {
        let (catalog, SandboxRecord { id, owner, .. }) = with_a_sandbox();
        let book = PortBook::load(&catalog).unwrap();
        let set = |port, settings: &PortSettings| book.set(&catalog, (&owner, &id), port, settings);
        for port in 1..=256 {
            set(port, &public()).unwrap();
        }
        assert!(matches!(set(257, &public()), Err(PortBookError::TooMany)));
        set(256, &PortSettings { public: false, host: Some("app".to_owned()) }).unwrap();
        set(257, &PortSettings::default()).unwrap();
        set(1, &PortSettings::default()).unwrap();
        set(257, &public()).unwrap();
    }
}

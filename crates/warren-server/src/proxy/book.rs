use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{Owner, SandboxId};
use warren_face::error::{ApiError, Code};

/// The catalog's note of all settings of ports.
const NOTE: &str = "server.ports";

/// Ports of one sandbox that may have settings.
const MOST_PORTS: usize = 256;

/// How a port is reached. The default is what every port has of which nobody said otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortSettings {
    /// Whether everybody may.
    #[serde(default)]
    pub(crate) public: bool,
    /// The host that the application is told, if not the one that the client asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
}

/// What owners said of their ports. It outlives the server, and goes with the sandbox.
#[derive(Debug)]
pub(crate) struct PortBook {
    sandboxes: RwLock<BTreeMap<SandboxId, Sandbox>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Sandbox {
    owner: Owner,
    ports: BTreeMap<u16, PortSettings>,
}

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
    pub(crate) fn load(catalog: &dyn Catalog) -> Result<Self, CatalogError> {
        let text = catalog.setting(NOTE)?;
        // Of a note that cannot be read nothing is public.
        let sandboxes = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Ok(Self { sandboxes: RwLock::new(sandboxes) })
    }

    pub(crate) fn of(&self, sandbox: &SandboxId, port: u16) -> PortSettings {
        let sandboxes = self.sandboxes.read().unwrap_or_else(PoisonError::into_inner);
        sandboxes.get(sandbox).and_then(|sandbox| sandbox.ports.get(&port)).cloned().unwrap_or_default()
    }

    /// Remembers settings, and forgets those of sandboxes that are gone. They hold once they are on disk. Blocks.
    pub(crate) fn set(
        &self,
        catalog: &dyn Catalog,
        (owner, sandbox): (&Owner, &SandboxId),
        port: u16,
        settings: PortSettings,
    ) -> Result<(), PortBookError> {
        let mut current = self.sandboxes.write().unwrap_or_else(PoisonError::into_inner);
        let mut sandboxes = current.clone();
        sandboxes.retain(|id, known| !matches!(catalog.sandbox(&known.owner, id), Ok(None)));
        let place = sandboxes
            .entry(sandbox.clone())
            .or_insert_with(|| Sandbox { owner: owner.clone(), ports: BTreeMap::new() });
        if settings == PortSettings::default() {
            place.ports.remove(&port);
        } else {
            place.ports.insert(port, settings);
        }
        if place.ports.len() > MOST_PORTS {
            return Err(PortBookError::TooMany);
        }
        sandboxes.retain(|_, sandbox| !sandbox.ports.is_empty());
        let text = serde_json::to_string(&sandboxes).unwrap_or_default();
        catalog.set_setting(NOTE, Some(&text).filter(|_| !sandboxes.is_empty()).map(String::as_str))?;
        *current = sandboxes;
        Ok(())
    }
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
    use warren_core::catalog::SandboxCatalog as _;
    use warren_testkit::MemoryCatalog;

    use super::*;

    #[test]
    fn what_was_said_of_a_port_is_known_to_the_next_server() {
        let (catalog, owner) = (MemoryCatalog::new(), Owner::first());
        let id = SandboxId::from_random([1; 16]);
        let book = PortBook::load(&catalog).unwrap();
        assert_eq!(book.of(&id, 80), PortSettings::default());
        let public = PortSettings { public: true, host: None };
        book.set(&catalog, (&owner, &id), 80, public.clone()).unwrap();
        let next = PortBook::load(&catalog).unwrap();
        assert_eq!((next.of(&id, 80), next.of(&id, 81).public), (public, false));
        next.set(&catalog, (&owner, &id), 80, PortSettings::default()).unwrap();
        assert_eq!(catalog.setting(NOTE).unwrap(), None);
    }

    #[test]
    fn settings_of_sandboxes_that_are_gone_are_forgotten() {
        let (catalog, owner) = (MemoryCatalog::new(), Owner::first());
        let (gone, id) = (SandboxId::from_random([1; 16]), SandboxId::from_random([2; 16]));
        let book = PortBook::load(&catalog).unwrap();
        let public = PortSettings { public: true, host: None };
        book.set(&catalog, (&owner, &gone), 80, public.clone()).unwrap();
        book.set(&catalog, (&owner, &id), 80, public).unwrap();
        assert_eq!((book.of(&gone, 80).public, book.of(&id, 80).public), (false, true));
    }

    #[test]
    fn a_damaged_note_makes_nothing_public() {
        let catalog = MemoryCatalog::new();
        catalog.set_setting(NOTE, Some("{")).unwrap();
        assert!(PortBook::load(&catalog).is_ok());
    }
}

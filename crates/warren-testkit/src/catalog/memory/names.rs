use std::cmp::Reverse;

use warren_core::catalog::{CatalogError, CatalogErrorKind};
use warren_core::{Owner, SandboxId, SandboxName, SandboxRecord};

use super::{Records, failure, is_over};

/// The words that mean a sandbox.
impl Records {
    /// The owner's sandbox that has the name and is not over.
    pub(super) fn holder(&self, owner: &Owner, name: &SandboxName) -> Option<SandboxId> {
        let holds = |record: &&SandboxRecord| {
            record.owner == *owner && record.name.as_ref() == Some(name) && !is_over(record)
        };
        self.sandboxes.values().find(holds).map(|record| record.id.clone())
    }

    pub(super) fn check_name(&self, record: &SandboxRecord) -> Result<(), CatalogError> {
        let name = record.name.as_ref().filter(|_| !is_over(record));
        match name.and_then(|name| self.holder(&record.owner, name)) {
            Some(holder) if holder != record.id => Err(failure(CatalogErrorKind::NameTaken, &holder)),
            _ => Ok(()),
        }
    }

    pub(super) fn beginning(&self, owner: &Owner, beginning: &str, most: usize) -> Vec<SandboxId> {
        let begins =
            |record: &&SandboxRecord| record.owner == *owner && record.id.as_str().starts_with(beginning);
        let mut found: Vec<&SandboxRecord> = self.sandboxes.values().filter(begins).collect();
        if found.iter().any(|record| !is_over(record)) {
            found.retain(|record| !is_over(record));
        }
        found.sort_by_key(|record| Reverse((record.created_unix_ms, record.id.clone())));
        found.into_iter().take(most).map(|record| record.id.clone()).collect()
    }

    pub(super) fn last_of(&self, owner: &Owner) -> Option<SandboxId> {
        let found = self
            .sandboxes
            .values()
            .filter(|record| record.owner == *owner && !is_over(record) && record.build.is_none());
        let last = found.max_by_key(|record| (record.created_unix_ms, record.id.clone()));
        last.map(|record| record.id.clone())
    }

    pub(super) fn set_default(&mut self, owner: &Owner, id: Option<&SandboxId>) -> Result<(), CatalogError> {
        match id {
            Some(id) => {
                self.check_owner(owner, id)?;
                self.default_sandboxes.insert(owner.clone(), id.clone());
            }
            None => drop(self.default_sandboxes.remove(owner)),
        }
        Ok(())
    }
}

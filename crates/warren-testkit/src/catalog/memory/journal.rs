use std::fmt::Display;

use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, JournalCatalog};
use warren_core::{JournalEntry, Owner, SandboxId, ToolAnswer};

use super::{MemoryCatalog, Records, failure};

impl JournalCatalog for MemoryCatalog {
    fn append_entry(&self, entry: &JournalEntry, _: Durability) -> Result<u64, CatalogError> {
        let mut records = self.enter("append_entry")?;
        assert_eq!(entry.number, 0, "the catalog gives the number");
        records.check_sandbox(&entry.owner, &entry.sandbox, &entry.sandbox)?;
        let entries = records.journal.entry(entry.sandbox.clone()).or_default();
        let number = entries.last_key_value().map_or(0, |(number, _)| *number) + 1;
        entries.insert(number, JournalEntry { number, ..entry.clone() });
        Ok(number)
    }

    fn update_entries(&self, changed: &[JournalEntry], _: Durability) -> Result<(), CatalogError> {
        let mut records = self.enter("update_entries")?;
        for entry in changed {
            let entries = records.journal.get_mut(&entry.sandbox);
            let Some(stored) = entries.and_then(|entries| entries.get_mut(&entry.number)) else { continue };
            assert_eq!(
                (&stored.owner, stored.began_unix_ms),
                (&entry.owner, entry.began_unix_ms),
                "owner and beginning never change"
            );
            *stored = entry.clone();
        }
        Ok(())
    }

    fn entries(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<JournalEntry>, CatalogError> {
        let records = self.enter("entries")?;
        let Some(entries) = records.journal.get(sandbox) else { return Ok(Vec::new()) };
        let found = entries
            .values()
            .rev()
            .filter(|entry| entry.owner == *owner && before.is_none_or(|before| entry.number < before));
        Ok(found.take(limit as usize).cloned().collect())
    }

    fn entry(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
        number: u64,
    ) -> Result<Option<JournalEntry>, CatalogError> {
        let records = self.enter("entry")?;
        let found = records.journal.get(sandbox).and_then(|entries| entries.get(&number));
        Ok(found.filter(|entry| entry.owner == *owner).cloned())
    }

    fn open_entries(&self, sandbox: &SandboxId) -> Result<Vec<JournalEntry>, CatalogError> {
        let records = self.enter("open_entries")?;
        let open = |entry: &&JournalEntry| entry.ended_unix_ms.is_none() || entry.after.is_none();
        let Some(entries) = records.journal.get(sandbox) else { return Ok(Vec::new()) };
        Ok(entries.values().filter(open).cloned().collect())
    }

    fn begin_call(&self, call: &ToolAnswer) -> Result<Option<ToolAnswer>, CatalogError> {
        let mut records = self.enter("begin_call")?;
        assert_eq!(call.answer, None, "a call that begins has no answer");
        records.check_sandbox(&call.owner, &call.sandbox, &call.call)?;
        let key = (call.sandbox.clone(), call.call.clone());
        if let Some(earlier) = records.calls.get(&key) {
            return Ok(Some(earlier.clone()));
        }
        records.calls.insert(key, call.clone());
        Ok(None)
    }

    fn finish_call(&self, sandbox: &SandboxId, call: &str, answer: Option<&str>) -> Result<(), CatalogError> {
        let mut records = self.enter("finish_call")?;
        let key = (sandbox.clone(), call.to_owned());
        // The sandbox may have been forgotten meanwhile.
        let Some(stored) = records.calls.get_mut(&key) else { return Ok(()) };
        assert_eq!(stored.answer, None, "an answer never changes");
        match answer {
            Some(answer) => stored.answer = Some(answer.to_owned()),
            None => drop(records.calls.remove(&key)),
        }
        Ok(())
    }
}

impl Records {
    fn check_sandbox(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
        what: &dyn Display,
    ) -> Result<(), CatalogError> {
        match self.sandboxes.get(sandbox) {
            Some(record) if record.owner == *owner => Ok(()),
            _ => Err(failure(CatalogErrorKind::NotFound, what)),
        }
    }
}

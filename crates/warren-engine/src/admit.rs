//! What may be made here: a backend that can, limits within the server's, mounts from the list, room on the disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_core::{Field, Limits, Need, RootKind, SandboxSpec, check_labels};

use crate::backend::Backend;
use crate::error::{Wording, sentence};
use crate::{Engine, EngineError};

impl Engine {
    /// The backend for a spec: the named one, or the first that can.
    pub(crate) fn choose_backend(
        &self,
        spec: &SandboxSpec,
        disk_limit_required: bool,
        named: Option<&str>,
    ) -> Result<Arc<Backend>, EngineError> {
        // All that templates and snapshots are made of are layers.
        let needs = Need::of(spec, RootKind::Layers, disk_limit_required);
        let mut reasons = Vec::new();
        for backend in &self.shared.backends {
            if named.is_some_and(|named| named != backend.name()) {
                continue;
            }
            let refused = backend.port.capabilities().refuse(&needs).map(|refusal| refusal.to_string());
            match refused.or_else(|| self.why_no_link(&spec.network)) {
                None => return Ok(Arc::clone(backend)),
                Some(why) => reasons.push((backend.name().to_owned(), why)),
            }
        }
        if let (Some(named), true) = (named, reasons.is_empty()) {
            reasons.push((named.to_owned(), "there is no backend of that name here".to_owned()));
        }
        Err(EngineError::NothingFits(reasons))
    }

    /// Everything about a spec that can be judged without asking the host.
    pub(crate) fn check_spec(&self, spec: &SandboxSpec) -> Result<(), EngineError> {
        spec.validate()
            .map_err(|error| EngineError::invalid(error.field(), Wording::Named(error.to_string())))?;
        within(&spec.limits, &self.shared.settings.most_limits)
    }

    pub(crate) fn check_ttl(&self, ttl_s: u64) -> Result<(), EngineError> {
        let most = self.shared.settings.most_limits.lifetime_s;
        if (1..=most).contains(&ttl_s) {
            return Ok(());
        }
        Err(EngineError::invalid(
            Field::Lifetime,
            Wording::Predicate(format!("must be between 1 and {most}, got {ttl_s}")),
        ))
    }

    /// Refuses new work before the disk that holds layers is full. Blocks.
    pub fn check_disk(&self) -> Result<(), EngineError> {
        let mut layered = self.shared.backends.iter().filter(|backend| backend.port.layered().is_some());
        layered.try_for_each(|backend| self.check_disk_of(backend))
    }

    /// Refuses new work before the disk of a backend is full. Blocks.
    pub(crate) fn check_disk_of(&self, backend: &Backend) -> Result<(), EngineError> {
        let critical = self.shared.settings.disk.critical_bytes;
        match backend.port.space() {
            Ok(Some(space)) if space.free_bytes < critical => {
                Err(EngineError::DiskLow { free_mib: space.free_bytes >> 20, critical_mib: critical >> 20 })
            }
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(error = sentence(&error), "cannot see how much room the disk has");
                Err(EngineError::DiskLow { free_mib: 0, critical_mib: critical >> 20 })
            }
        }
    }
}

/// Puts in place of each mount's source where it really is. Blocks.
pub(crate) fn resolve_mounts(backend: &Backend, spec: &mut SandboxSpec) -> Result<(), EngineError> {
    for mount in &mut spec.mounts {
        mount.source = mount_source(backend, &mount.source)?;
    }
    Ok(())
}

/// The mounts of a sandbox that is started again must be what they were, and still allowed. Blocks.
pub(crate) fn check_mounts_unmoved(backend: &Backend, spec: &SandboxSpec) -> Result<(), EngineError> {
    for mount in &spec.mounts {
        if mount_source(backend, &mount.source)? != mount.source {
            let source = mount.source.display();
            return Err(EngineError::invalid(
                Field::Mounts,
                format!("`{source}` is no longer the directory it was"),
            ));
        }
    }
    Ok(())
}

fn mount_source(backend: &Backend, source: &Path) -> Result<PathBuf, EngineError> {
    // One answer for what is not there and what is not allowed: a tenant does not explore the host with it.
    let real = backend.port.mount_source(source).map_err(|_| {
        let message = format!("`{}` is not a directory that may be mounted", source.display());
        EngineError::invalid(Field::Mounts, message)
    })?;
    Ok(real.path)
}

/// Labels and metadata are the owner's own, within the same bounds.
pub(crate) fn check_words(field: Field, words: &BTreeMap<String, String>) -> Result<(), EngineError> {
    check_labels(words).map_err(|reason| EngineError::invalid(field, Wording::Reason(reason.to_owned())))
}

/// Every limit is within what the server allows.
fn within(limits: &Limits, most: &Limits) -> Result<(), EngineError> {
    let checks = [
        (Field::Memory, limits.memory > most.memory, most.memory.to_string()),
        (Field::Cpus, limits.cpus > most.cpus, most.cpus.to_string()),
        (Field::Pids, limits.pids > most.pids, most.pids.to_string()),
        (Field::Disk, limits.disk > most.disk, most.disk.to_string()),
        (Field::Inodes, limits.inodes > most.inodes, most.inodes.to_string()),
        (Field::OpenFiles, limits.open_files > most.open_files, most.open_files.to_string()),
        (Field::Lifetime, limits.lifetime_s > most.lifetime_s, most.lifetime_s.to_string()),
    ];
    match checks.into_iter().find(|(_, exceeded, _)| *exceeded) {
        Some((field, _, most)) => Err(EngineError::invalid(
            field,
            Wording::Predicate(format!("is more than the {most} allowed here")),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use warren_core::ByteSize;

    use super::*;

    fn field(result: Result<(), EngineError>) -> Field {
        match result {
            Err(EngineError::Invalid { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn limits_over_the_servers_are_refused_by_name() {
        let most = Limits::default();
        assert!(within(&Limits::default(), &most).is_ok());
        let memory = Limits { memory: ByteSize(most.memory.0 + 1), ..Limits::default() };
        assert_eq!(field(within(&memory, &most)), Field::Memory);
        let long = Limits { lifetime_s: most.lifetime_s + 1, ..Limits::default() };
        assert_eq!(field(within(&long, &most)), Field::Lifetime);
    }
}

//! Directories of the host that a sandbox is given.

use std::path::{Path, PathBuf};

use warren_core::SandboxSpec;

use crate::EngineError;
use crate::backend::Backend;
use crate::error::Field;

/// Puts in place of each mount's source where it really is. Blocks.
pub(super) fn resolve_mounts(backend: &Backend, spec: &mut SandboxSpec) -> Result<(), EngineError> {
    for mount in &mut spec.mounts {
        mount.source = mount_source(backend, &mount.source)?;
    }
    Ok(())
}

/// The mounts of a sandbox that is started again must be what they were, and still allowed. Blocks.
pub(super) fn check_mounts_unmoved(backend: &Backend, spec: &SandboxSpec) -> Result<(), EngineError> {
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
    // One answer for what is not there and what is not allowed: a tenant does not explore the host
    // with it.
    let real = backend.port.mount_source(source).map_err(|_| {
        let message = format!("`{}` is not a directory that may be mounted", source.display());
        EngineError::invalid(Field::Mounts, message)
    })?;
    Ok(real.path)
}

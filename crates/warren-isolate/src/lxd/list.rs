//! The sandboxes that exist, as the daemon tells them.

use warren_core::{Found, IsolationError, IsolationErrorKind, SandboxId};

use super::Backend;
use super::instance::{Instance, SANDBOX};
use super::record::{RECORD, Record, Stage};

pub(super) fn list(backend: &Backend) -> Result<Vec<Found>, IsolationError> {
    let found = backend.client.instances().map_err(|error| {
        let kind = error.kind(IsolationErrorKind::Host);
        IsolationError::caused(kind, "list the instances of LXD", error)
    })?;
    Ok(ours(backend, &found).filter_map(|(id, instance)| told(backend, id, instance)).collect())
}

/// Instances that are sandboxes of this data directory.
pub(super) fn ours<'a>(
    backend: &'a Backend,
    all: &'a [Instance],
) -> impl Iterator<Item = (SandboxId, &'a Instance)> {
    all.iter().filter_map(|instance| {
        let id: SandboxId = instance.config.get(SANDBOX)?.parse().ok()?;
        let named = instance.name == super::instance::name(&id);
        (named && instance.belongs_to(backend.data.instance())).then_some((id, instance))
    })
}

pub(super) fn record_of(instance: &Instance) -> Option<Record> {
    instance.config.get(RECORD).and_then(|text| Record::parse(text))
}

fn told(backend: &Backend, id: SandboxId, instance: &Instance) -> Option<Found> {
    let record = record_of(instance).filter(|record| record.stage == Stage::Made)?;
    let life = backend.life(&id).filter(|_| !instance.is_stopped());
    Some(Found {
        pid: life.as_ref().map(|life| life.pid),
        alive: life.is_some(),
        frozen: life.is_some() && instance.is_frozen(),
        owner: record.owner,
        root: record.root(),
        spec: record.spec,
        created_unix_ms: record.created_unix_ms,
        id,
    })
}

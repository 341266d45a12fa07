//! The figures of a sandbox, read in the groups that the engine made, or told by an engine
//! elsewhere.

use bollard::models::ContainerStatsResponse;
use warren_core::{IsolationError, Pulse, SandboxId, Usage};

use super::record::Record;
use super::{Engine, Site, container, far};
use crate::linux::{connections_of, pulse_of, usage_of};

/// All figures but those of the disk: the engine would walk over all files for them.
pub(super) fn usage(engine: &Engine, id: &SandboxId, record: &Record) -> Result<Usage, IsolationError> {
    if let Site::Far(bells) = &engine.site {
        return told(engine, id).map(|told| far::usage(bells, id, &told));
    }
    if record.group.as_os_str().is_empty() {
        return Ok(Usage::default());
    }
    Ok(Usage { connections: connections(record), ..usage_of(&engine.layout, &record.group) })
}

pub(super) fn pulse(engine: &Engine, id: &SandboxId, record: &Record) -> Result<Pulse, IsolationError> {
    if let Site::Far(_) = engine.site {
        return told(engine, id).map(|told| far::pulse(&told));
    }
    Ok(Pulse { connections: connections(record), ..pulse_of(&engine.layout, &record.group) })
}

/// The engine's own figures.
fn told(engine: &Engine, id: &SandboxId) -> Result<ContainerStatsResponse, IsolationError> {
    engine.client.stats(&container(id)).map_err(|error| error.during(format!("ask for the figures of {id}")))
}

fn connections(record: &Record) -> u64 {
    if record.spec.network.is_none() || !record.is_alive() { 0 } else { connections_of(record.pid) }
}

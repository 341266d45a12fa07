//! The figures of a sandbox, read in the groups that the engine made.

use warren_core::{IsolationError, Pulse, Usage};

use super::Engine;
use super::record::Record;
use crate::linux::{connections_of, pulse_of, usage_of};

/// All figures but those of the disk: the engine would walk over all files for them.
pub(super) fn usage(engine: &Engine, record: &Record) -> Result<Usage, IsolationError> {
    if record.group.as_os_str().is_empty() {
        return Ok(Usage::default());
    }
    Ok(Usage { connections: connections(record), ..usage_of(&engine.layout, &record.group) })
}

pub(super) fn pulse(engine: &Engine, record: &Record) -> Pulse {
    Pulse { connections: connections(record), ..pulse_of(&engine.layout, &record.group) }
}

fn connections(record: &Record) -> u64 {
    if record.spec.network.is_none() || !record.is_alive() { 0 } else { connections_of(record.pid) }
}

//! The figures of a sandbox, read in the groups that the engine made.

use warren_core::{IsolationError, Pulse, Usage};

use super::Engine;
use super::record::Record;
use crate::linux::{pulse_of, usage_of};

/// All figures but those of the disk: the engine would walk over all files for them.
pub(super) fn usage(engine: &Engine, record: &Record) -> Result<Usage, IsolationError> {
    if record.group.as_os_str().is_empty() {
        return Ok(Usage::default());
    }
    Ok(usage_of(&engine.layout, &record.group))
}

pub(super) fn pulse(engine: &Engine, record: &Record) -> Pulse {
    // It has no network, and so no connections.
    pulse_of(&engine.layout, &record.group)
}

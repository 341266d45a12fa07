use std::collections::HashMap;

use parking_lot::Mutex;
use warren_core::SnapshotId;

use crate::EngineError;

/// Pairs of states that are remembered; beyond that all are forgotten.
const MOST_PAIRS: usize = 4096;

/// How many paths differ between two states, once that is known. States never change.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    known: Mutex<HashMap<(SnapshotId, SnapshotId), u64>>,
}

impl Counts {
    /// Paths that differ; `None` where one of the states is not known any more. Blocks.
    pub(crate) fn of(
        &self,
        from: &SnapshotId,
        to: &SnapshotId,
        count: impl FnOnce() -> Result<Option<u64>, EngineError>,
    ) -> Result<Option<u64>, EngineError> {
        if from == to {
            return Ok(Some(0));
        }
        let pair = (from.clone(), to.clone());
        if let Some(count) = self.known.lock().get(&pair) {
            return Ok(Some(*count));
        }
        let Some(count) = count()? else { return Ok(None) };
        let mut known = self.known.lock();
        if known.len() >= MOST_PAIRS {
            known.clear();
        }
        known.insert(pair, count);
        Ok(Some(count))
    }
}

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use warren_core::{DiffOptions, RootTree, SandboxRecord, SnapshotId, Stack};

use super::blame::Knowledge;
use crate::cell::start_of;
use crate::state::Pin;
use crate::{Engine, EngineError};

/// The captured states that a sandbox's journal names, looked up as they are needed. Everything
/// here blocks.
pub(super) struct States<'a> {
    engine: &'a Engine,
    record: &'a SandboxRecord,
    root: Option<Vec<RootTree>>,
    /// `None`: it is gone, or cannot be used.
    known: HashMap<SnapshotId, Option<State>>,
}

struct State {
    stack: Stack,
    /// When the sandbox was in it; absent for that of another.
    moment: Option<u64>,
    _pin: Pin,
}

impl<'a> States<'a> {
    pub(super) fn new(engine: &'a Engine, record: &'a SandboxRecord) -> Self {
        Self { engine, record, root: None, known: HashMap::new() }
    }

    /// True if a state can be looked at.
    fn has(&mut self, id: &SnapshotId) -> Result<bool, EngineError> {
        if !self.known.contains_key(id) {
            let found = match self.engine.usable_snapshot(&self.record.owner, id) {
                Ok((snapshot, pin)) => {
                    let own = snapshot.sandbox == self.record.id;
                    let moment = own.then_some(snapshot.created_unix_ms);
                    Some(State { stack: snapshot.stack, moment, _pin: pin })
                }
                // What it began with is known before it is written down.
                Err(EngineError::NotFound { .. }) if *id == start_of(&self.record.id) => {
                    let stack = self.record.history.began.clone();
                    let moment = Some(self.record.created_unix_ms);
                    Some(State { _pin: self.engine.shared.keep.pin(&stack.0), stack, moment })
                }
                Err(EngineError::NotFound { .. } | EngineError::SnapshotDamaged { .. }) => None,
                Err(error) => return Err(error),
            };
            self.known.insert(id.clone(), found);
        }
        Ok(self.known.get(id).is_some_and(Option::is_some))
    }

    /// How many paths differ, as far as anybody counts.
    pub(super) fn count(&mut self, from: &SnapshotId, to: &SnapshotId) -> Result<Option<u64>, EngineError> {
        let Some((from, to)) = self.pair(from, to)? else { return Ok(None) };
        if from == to {
            return Ok(Some(0));
        }
        let layers = Arc::clone(&self.engine.shared.parts.layers);
        let mut count = 0;
        layers.diff_each(self.root()?, &from, &to, &DiffOptions::default(), &mut |_| {
            count += 1;
            true
        })?;
        Ok(Some(count))
    }

    fn pair(&mut self, from: &SnapshotId, to: &SnapshotId) -> Result<Option<(Stack, Stack)>, EngineError> {
        if !self.has(from)? || !self.has(to)? {
            return Ok(None);
        }
        let stack =
            |id: &SnapshotId| self.known.get(id).and_then(|known| Some(known.as_ref()?.stack.clone()));
        Ok(stack(from).zip(stack(to)))
    }

    fn root(&mut self) -> Result<&[RootTree], EngineError> {
        if self.root.is_none() {
            self.root =
                Some(self.engine.base_root(&self.record.id, &self.record.spec, &self.record.backend)?);
        }
        Ok(self.root.as_deref().unwrap_or_default())
    }
}

/// The states of a sandbox, seen at one path.
pub(super) struct AtPath<'a> {
    pub(super) states: States<'a>,
    pub(super) path: &'a Path,
}

impl Knowledge for AtPath<'_> {
    fn has(&mut self, id: &SnapshotId) -> Result<bool, EngineError> {
        self.states.has(id)
    }

    fn same(&mut self, one: &SnapshotId, other: &SnapshotId) -> Result<bool, EngineError> {
        Ok(self.states.pair(one, other)?.is_some_and(|(one, other)| one == other))
    }

    fn moment(&mut self, id: &SnapshotId) -> Result<Option<u64>, EngineError> {
        self.states.has(id)?;
        Ok(self.states.known.get(id).and_then(|known| known.as_ref()?.moment))
    }

    fn differs(&mut self, from: &SnapshotId, to: &SnapshotId) -> Result<bool, EngineError> {
        let Some((from, to)) = self.states.pair(from, to)? else { return Ok(false) };
        let layers = Arc::clone(&self.states.engine.shared.parts.layers);
        Ok(from != to && layers.differs(self.states.root()?, &from, &to, self.path)?)
    }

    fn exists(&mut self, id: &SnapshotId) -> Result<bool, EngineError> {
        let Some((stack, _)) = self.states.pair(id, id)? else { return Ok(false) };
        let layers = Arc::clone(&self.states.engine.shared.parts.layers);
        Ok(layers.exists(self.states.root()?, &stack, self.path)?)
    }
}

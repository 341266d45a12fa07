use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use warren_core::{DiffOptions, RootTree, SandboxRecord, SnapshotId, Stack};

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

    /// Whether a state can be looked at.
    pub(super) fn has(&mut self, id: &SnapshotId) -> Result<bool, EngineError> {
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

    /// Whether a path differs between two states that can be looked at.
    pub(super) fn differs(
        &mut self,
        from: &SnapshotId,
        to: &SnapshotId,
        path: &Path,
    ) -> Result<bool, EngineError> {
        let Some((from, to)) = self.pair(from, to)? else { return Ok(false) };
        if from == to {
            return Ok(false);
        }
        let layers = Arc::clone(&self.engine.shared.parts.layers);
        Ok(layers.differs(self.root()?, &from, &to, path)?)
    }

    /// Whether there is anything at a path in a state that can be looked at.
    pub(super) fn exists(&mut self, id: &SnapshotId, path: &Path) -> Result<bool, EngineError> {
        let Some((stack, _)) = self.pair(id, id)? else { return Ok(false) };
        let layers = Arc::clone(&self.engine.shared.parts.layers);
        Ok(layers.exists(self.root()?, &stack, path)?)
    }

    /// Whether two states that can be looked at are made of the same layers.
    pub(super) fn same(&mut self, one: &SnapshotId, other: &SnapshotId) -> Result<bool, EngineError> {
        Ok(self.pair(one, other)?.is_some_and(|(one, other)| one == other))
    }

    /// When the sandbox was in a state.
    pub(super) fn moment(&mut self, id: &SnapshotId) -> Result<Option<u64>, EngineError> {
        self.has(id)?;
        Ok(self.known.get(id).and_then(|known| known.as_ref()?.moment))
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
            self.root = Some(self.engine.template_root(&self.record.id, &self.record.spec)?);
        }
        Ok(self.root.as_deref().unwrap_or_default())
    }
}

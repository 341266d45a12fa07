//! Changes that got stuck half way, and are tried again before anything else is done.
//!
//! ```text
//!           ┌─ neither recorded nor undone ───────► Astray ────► straightened ─┐
//!           ├─ the catalog refused a record ──────► Unwritten ─► written ──────┤
//! Nothing ──┤                                          ▲                       ├─► Nothing
//!           ├─ a failed start cannot be undone ───► Leftover ──► undone ───────┤
//!           └─ a start of the engine found it ────► Unsettled ─► settled ──────┘
//! ```
//!
//! A leftover may come with a record that is not written either: the start failed, and so did the
//! note of that. All others exclude one another, because nothing new is begun while one of them is
//! there. An end takes the place of `Astray`: it does not matter any more whether it is frozen.
//! `Unsettled` becomes `Unwritten` when only the last record is missing.
//!
//! The link of a sandbox has its own half-done states: [`super::network::Link`].

use std::sync::Arc;

use warren_core::catalog::Durability;
use warren_core::{NewLayer, RootState, SandboxRecord};

use super::pause::Undo;
use super::{Driver, Remains};
use crate::ports::blocking;
use crate::state::Pin;
use crate::{EngineError, EngineStep};

/// See the module's documentation.
#[derive(Debug)]
pub(super) enum Unfinished {
    Nothing,
    /// The sandbox is frozen or runs against what its record says.
    Astray(Undo),
    /// The catalog could not be told yet.
    Unwritten(Box<Unwritten>),
    /// Something of a start that failed is still there, and perhaps the catalog does not know.
    Leftover(RootState, Option<Box<Unwritten>>),
    /// A start of the engine found this and could not settle it.
    Unsettled(Remains),
}

/// A record that must be written, whatever fails.
#[derive(Debug, Clone)]
pub(super) struct Unwritten {
    pub(super) record: SandboxRecord,
    /// A life ends with it, at this step.
    pub(super) end: Option<EngineStep>,
    /// The layer that it names for the first time, which may not be committed yet.
    pub(super) layer: Option<(NewLayer, Arc<Pin>)>,
}

impl Unfinished {
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    pub(super) fn unwritten(&self) -> Option<&Unwritten> {
        match self {
            Self::Unwritten(unwritten) | Self::Leftover(_, Some(unwritten)) => Some(unwritten),
            Self::Nothing | Self::Astray(_) | Self::Leftover(_, None) | Self::Unsettled(_) => None,
        }
    }

    fn set_unwritten(&mut self, unwritten: Option<Box<Unwritten>>) {
        *self = match (&*self, unwritten) {
            (Self::Leftover(state, _), unwritten) => Self::Leftover(*state, unwritten),
            (_, Some(unwritten)) => Self::Unwritten(unwritten),
            (_, None) => Self::Nothing,
        };
    }

    /// The leftover is gone; what is left is to write the record.
    pub(super) fn undone(&mut self) {
        if let Self::Leftover(_, unwritten) = self {
            *self = unwritten.take().map_or(Self::Nothing, Self::Unwritten);
        }
    }
}

impl Driver {
    /// Finishes what is unfinished. Nothing else comes before it: a record that is to be written
    /// must not be overtaken by a later one.
    pub(super) async fn catch_up(&mut self) -> Result<(), EngineError> {
        self.clear_leftover().await?;
        self.write_unwritten().await?;
        self.straighten_link().await;
        match self.unfinished {
            Unfinished::Unsettled(remains) => self.settle(remains).await,
            // Operations that need it call `straighten` themselves: an end does not need it.
            _ => Ok(()),
        }
    }

    /// Writes a record that must be written, now or later.
    pub(super) async fn must_write(&mut self, mut unwritten: Unwritten) -> Result<(), EngineError> {
        unwritten.record.generation = self.record.generation + 1;
        self.unfinished.set_unwritten(Some(Box::new(unwritten)));
        self.write_unwritten().await
    }

    /// Writes the record that must be written, if there is one, and then shows it to everybody.
    pub(super) async fn write_unwritten(&mut self) -> Result<(), EngineError> {
        let Some(Unwritten { record, end, layer }) = self.unfinished.unwritten().cloned() else {
            return Ok(());
        };
        let durability = if record.files_kept() { Durability::Disk } else { Durability::Process };
        let engine = self.engine.inner();
        let written = blocking(move || {
            if let Some((layer, _)) = &layer {
                engine.shared.parts.layers.commit(layer)?;
            }
            engine.shared.parts.catalog.update_sandbox(&record, durability)?;
            Ok::<_, EngineError>(record)
        })
        .await;
        match written {
            Ok(record) => {
                self.unfinished.set_unwritten(None);
                self.show(record);
            }
            Err(error) => {
                self.engine.fault();
                return Err(error);
            }
        }
        if let Some(step) = end {
            self.passed(step);
            self.engine.sightings_end(&self.record.owner, &self.record.id);
            self.announce_end();
            self.engine.sandbox_ended(&self.record).await;
        }
        Ok(())
    }
}

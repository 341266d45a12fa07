//! A sandbox that a start of the engine found: it is adopted, or a change is finished or undone.

use std::os::fd::OwnedFd;

use warren_core::catalog::Durability;
use warren_core::{DeathCause, Event, Isolation, IsolationErrorKind, PausedBy, Request, SandboxId, Status};

use super::pause::Undo;
use super::unfinished::Unfinished;
use super::{Adopted, Driver};
use crate::EngineError;
use crate::cell::Closing;
use crate::certificate::{Ending, Evidence, cause_of_exit};
use crate::error::sentence;

/// The remains of a sandbox that does not live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remains {
    /// It was being made.
    HalfMade,
    /// It was being started again; its files are there.
    HalfResumed,
    /// It was being ended, and the record says how.
    HalfEnded,
    /// Its processes are gone since this machine was last switched on.
    Dead,
    /// As [`Remains::Dead`], but the machine was off in between.
    SwitchedOff,
    /// It was being moved: its files are in its layers, and it runs nowhere.
    HalfMoved,
    /// It is in order, but for what a backend holds that it was moved away from.
    LeftBehind,
    /// Not even its files are there.
    Gone,
}

impl Driver {
    /// Takes over a sandbox that runs. What the machine says counts: a thaw that was not written
    /// down has happened. One that is frozen for no reason that is written down goes on.
    pub(super) async fn adopt(&mut self, watch: OwnedFd, frozen: bool, link: Adopted) {
        self.watch_over(watch);
        self.emit(Event::SandboxAdopted);
        let addresses = self.take_over_link(link);
        let recorded = match (self.record_what_is(frozen).await, addresses) {
            (Ok(()), Some(addresses)) => {
                self.write(Durability::Process, |record| record.addresses = addresses).await
            }
            (recorded, _) => recorded,
        };
        if let Err(error) = recorded {
            self.engine.fault();
            tracing::error!(sandbox.id = %self.record.id, error = sentence(&error), "cannot write down how a sandbox was found");
        }
    }

    async fn record_what_is(&mut self, frozen: bool) -> Result<(), EngineError> {
        match (frozen, self.record.status) {
            // Nobody was told that it is paused: a copy, a seal or a pause was cut short, and its
            // processes go on.
            (true, Status::Ready) => {
                self.cell.close(Closing::Pause(PausedBy::Idleness));
                self.undo(Undo::Thaw).await;
                Ok(())
            }
            (false, Status::Paused) => self.enter(Request::Resume, None, None, |_| {}).await,
            // Only ready and paused sandboxes are adopted.
            _ => Ok(()),
        }
    }

    /// Finishes or undoes what was found. A failure is tried again later.
    pub(super) async fn settle(&mut self, remains: Remains) -> Result<(), EngineError> {
        self.cell.close(Closing::End);
        let settled = match remains {
            Remains::HalfMade => self.undo_make().await,
            Remains::HalfResumed => self.undo_resume().await,
            Remains::HalfEnded => self.finish().await,
            Remains::LeftBehind => {
                self.clear_left_behind().await;
                Ok(())
            }
            Remains::Dead | Remains::SwitchedOff | Remains::HalfMoved | Remains::Gone => {
                self.record_death(remains).await
            }
        };
        if settled.is_err() {
            self.engine.fault();
        }
        let only_unwritten = self.unfinished.unwritten().is_some();
        self.unfinished = match &settled {
            _ if only_unwritten => return settled,
            Ok(()) => Unfinished::Nothing,
            // The record knows by now how it ends.
            Err(_) if self.record.status == Status::Stopping => Unfinished::Unsettled(Remains::HalfEnded),
            Err(_) => Unfinished::Unsettled(remains),
        };
        settled
    }

    async fn undo_make(&mut self) -> Result<(), EngineError> {
        match self.isolate(|backend, id| backend.destroy(id)).await {
            Err(error) if error.kind != IsolationErrorKind::NotFound => {
                return Err(EngineError::Backend(error));
            }
            Ok(()) | Err(_) => {}
        }
        self.unlink().await;
        self.give_up("the server ended while it was being made".to_owned()).await;
        Ok(())
    }

    async fn undo_resume(&mut self) -> Result<(), EngineError> {
        // Of one that was moved, everything is in its layers, and what is here does not count.
        let unplaced = self.record.unplaced;
        let undo = move |backend: &dyn Isolation, id: &SandboxId| {
            if unplaced { backend.destroy(id) } else { backend.halt(id) }
        };
        match self.isolate(undo).await {
            Err(error) if !(unplaced && error.kind == IsolationErrorKind::NotFound) => {
                return Err(EngineError::Backend(error));
            }
            Ok(()) | Err(_) => {}
        }
        self.unlink().await;
        self.back_to_rest().await;
        self.engine.sandbox_ended(&self.record).await;
        Ok(())
    }

    async fn record_death(&mut self, remains: Remains) -> Result<(), EngineError> {
        let usage = self.isolate(|backend, id| backend.usage(id)).await.ok();
        let (cause, detail) = match remains {
            Remains::Dead => match cause_of_exit(usage.as_ref()) {
                (DeathCause::Exit, _) => {
                    (DeathCause::HostRestart, "it ended while no server was there to see it".to_owned())
                }
                known => known,
            },
            Remains::Gone => (DeathCause::HostRestart, "it is gone, and so are its files".to_owned()),
            Remains::HalfMoved => (
                DeathCause::HostRestart,
                "the server ended while it was moved behind another wall".to_owned(),
            ),
            Remains::SwitchedOff
            | Remains::HalfMade
            | Remains::HalfResumed
            | Remains::HalfEnded
            | Remains::LeftBehind => (DeathCause::HostRestart, "the machine was switched off".to_owned()),
        };
        let ending = Ending { cause, detail, files_kept: remains != Remains::Gone };
        self.end(ending, Evidence { usage, ..Evidence::default() }).await?;
        self.clear_left_behind().await;
        Ok(())
    }
}

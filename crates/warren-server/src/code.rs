//! Code that is run cell by cell in a sandbox, with what earlier cells defined.
//!
//! A service inside the sandbox does it (`code/service`, in Python; `bundle` makes one text of its parts). It listens on port 49999 of
//! the sandbox's loopback and says what E2B's clients of a code interpreter expect, so that for them the port proxy only passes requests
//! on. Nothing of it is installed: [`ensure`] starts it when somebody asks for the port and nobody listens, also after it was killed.
//! Whoever has the port is the service, so that starting it twice does no harm. `/v1` speaks to it through [`Service`], and takes
//! nothing that it says for granted: the sandbox may have put something else there.

mod bundle;
mod cell;
mod client;
mod error;
mod event;
mod lines;
mod start;

#[cfg(test)]
mod service_tests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Mutex as Turn;
use warren_core::SandboxId;
use warren_e2b::CODE_PORT;
use warren_engine::{Sandbox, Visit};

pub(crate) use cell::{CELL, cell_of, is_cell};
pub(crate) use client::Service;
pub(crate) use error::CodeError;
pub(crate) use event::Event;
pub(crate) use lines::Lines;

use crate::e2b::Traits;
use crate::proxy;
use crate::state::AppState;

/// Templates whose sandboxes are made to run code, by the beginning of their names.
const INTERPRETER: &str = "code-interpreter";

/// Where Debian keeps what the service needs beside Python.
const KERNEL: &str = "/usr/lib/python3/dist-packages/ipykernel";

/// Whether sandboxes of the machine's own `/usr` can run code.
pub(crate) fn host_can() -> bool {
    Path::new(KERNEL).exists()
}

/// Who starts the service where.
#[derive(Debug, Default)]
pub(crate) struct Starts(Mutex<HashMap<SandboxId, Weak<Turn<()>>>>);

impl Starts {
    fn turn(&self, sandbox: &SandboxId) -> Arc<Turn<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(sandbox).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(sandbox.clone(), Arc::downgrade(&turn));
        turn
    }
}

/// Sees to it that the service listens.
pub(crate) async fn ensure(state: &AppState, sandbox: &Sandbox) -> Result<(), CodeError> {
    let visit = sandbox.visit().await?;
    if listens(&visit).await? {
        return Ok(());
    }
    let turn = state.code_starts.turn(sandbox.id());
    let _turn = turn.lock().await;
    if listens(&visit).await? {
        return Ok(());
    }
    start::start(state, sandbox).await
}

/// Starts the service in a new sandbox that is meant for it, so that the first cell need not wait. Nobody waits for this, and whoever
/// runs a cell is told what is wrong.
pub(crate) fn warm(state: &AppState, sandbox: Sandbox) {
    let Some(record) = state.engine.live(sandbox.id()) else { return };
    let is_meant = |template: &str| template.starts_with(INTERPRETER);
    if !is_meant(record.spec.template.as_str()) && !is_meant(&Traits::of(&record).template) {
        return;
    }
    let state = state.clone();
    tokio::spawn(async move {
        if let Err(error) = ensure(&state, &sandbox).await {
            let error = crate::error::chain(&error);
            tracing::debug!(sandbox.id = %sandbox.id(), error, "the code service is not ready");
        }
    });
}

async fn listens(visit: &Visit) -> Result<bool, CodeError> {
    match visit.connect(CODE_PORT).await {
        Ok(_) => Ok(true),
        Err(error) if proxy::is_closed(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

//! Code that is run cell by cell in a sandbox, with what earlier cells defined.
//!
//! A service inside the sandbox does it (`code/service`, in Python; `bundle` makes one text of its
//! parts). It listens on port 49999 of the sandbox's loopback and says what E2B's clients of a code
//! interpreter expect, so that for them the port proxy only passes requests on. Nothing of it is
//! installed: [`ensure`] starts it when somebody asks for the port and nobody listens, also after
//! it was killed. The process that has the port is the service, so starting it twice does no harm.
//! `/v1` speaks to it through [`Service`], and takes nothing that it says for granted: the sandbox
//! may have put something else there.

mod bundle;
mod cell;
mod client;
mod error;
mod event;
mod lines;
mod start;

#[cfg(test)]
mod service_tests;

use std::path::Path;

use warren_core::SandboxRecord;
use warren_engine::{Sandbox, Visit};

pub use cell::{CELL, cell_of, is_cell};
pub use client::Service;
pub use error::CodeError;
pub use event::Event;
pub use lines::Lines;

use crate::desk::Desk;
use crate::port::is_closed;

/// The port on which a sandbox runs code, as E2B's clients know it.
pub const CODE_PORT: u16 = 49999;

/// Templates whose sandboxes are made to run code, by the beginning of their names.
const INTERPRETER: &str = "code-interpreter";

/// Where Debian keeps what the service needs beside Python.
const KERNEL: &str = "/usr/lib/python3/dist-packages/ipykernel";

/// True if sandboxes of the machine's own `/usr` can run code.
pub fn host_can() -> bool {
    Path::new(KERNEL).exists()
}

/// Makes sure that the service listens.
pub async fn ensure(desk: &Desk, sandbox: &Sandbox) -> Result<(), CodeError> {
    let visit = sandbox.visit().await?;
    if listens(&visit).await? {
        return Ok(());
    }
    let turn = desk.code_starts.of(sandbox.id());
    let _turn = turn.lock().await;
    if listens(&visit).await? {
        return Ok(());
    }
    start::start(desk, sandbox).await
}

/// Starts the service in a new sandbox that is meant for it, so that the first cell need not wait.
/// Nobody waits for this: a caller who runs a cell is told what is wrong. `template` is the name
/// that the sandbox's client uses.
pub fn warm(desk: &Desk, sandbox: Sandbox, record: &SandboxRecord, template: &str) {
    let is_meant = |template: &str| template.starts_with(INTERPRETER);
    if !is_meant(record.spec.template.as_str()) && !is_meant(template) {
        return;
    }
    let desk = desk.clone();
    tokio::spawn(async move {
        if let Err(error) = ensure(&desk, &sandbox).await {
            let error = crate::error::chain(&error);
            tracing::debug!(sandbox.id = %sandbox.id(), error, "the code service is not ready");
        }
    });
}

async fn listens(visit: &Visit) -> Result<bool, CodeError> {
    match visit.connect(CODE_PORT).await {
        Ok(_) => Ok(true),
        Err(error) if is_closed(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

//! Between the engine's records and the bodies of the interface, in both directions. What comes in is checked here as far as it can be
//! without the engine, so that a refusal names the field as the caller wrote it.

mod cursor;
mod event;
mod new_sandbox;
mod run;
mod sandbox;
mod server;
mod session;
mod time;

pub(crate) use cursor::{page, read_cursor};
pub(crate) use event::event;
pub(crate) use new_sandbox::{NewParts, nested, new_sandbox};
pub(crate) use run::{can_run, new_run, run};
pub(crate) use sandbox::{created, death, patch, sandbox, usage};
pub(crate) use server::{health, stats, template};
pub(crate) use session::{acquire, acquired, attach, details, session, session_view};
pub(crate) use time::rfc3339;

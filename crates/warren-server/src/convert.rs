//! Between the engine's records and the bodies of the interface, in both directions. What comes in is checked here as far as it can be
//! without the engine, so that a refusal names the field as the caller wrote it.

mod cursor;
mod event;
mod file;
mod new_sandbox;
mod process;
mod run;
mod sandbox;
mod server;
mod session;
mod time;

pub(crate) use cursor::{page, read_cursor};
pub(crate) use event::event;
pub(crate) use file::{file_change, file_info, grep_line, mode, name, path, user};
pub(crate) use new_sandbox::{NewParts, nested, new_sandbox};
pub(crate) use process::{
    ExecOrder, checked_port, encoding, exec_order, exec_result, exited, launched, process, process_selector,
    signal_number, start_order, started, terminal_size,
};
pub(crate) use run::{can_run, new_run, run};
pub(crate) use sandbox::{created, death, patch, sandbox, usage};
pub(crate) use server::{health, stats, template};
pub(crate) use session::{acquire, acquired, attach, details, session, session_view};
pub(crate) use time::rfc3339;

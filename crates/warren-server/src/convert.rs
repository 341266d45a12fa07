//! Between the engine's records and the bodies of the interface, in both directions. What comes in
//! is checked here as far as it can be without the engine, so that a refusal names the field as the
//! caller wrote it.

mod backend;
mod browser;
mod code;
mod diff;
mod event;
mod file;
mod journal;
mod network;
mod new_sandbox;
mod port;
mod process;
mod run;
mod sandbox;
mod secret;
mod server;
mod session;
mod snapshot;
mod tool;
mod words;

pub(crate) use backend::{backends, move_choice, moved};
pub(crate) use browser::{Control, browser, browser_action, browser_frames, browser_seen, mcp_url};
pub(crate) use code::{CODE_END, Collected, code_message, code_order, new_code_context};
pub(crate) use diff::{MOST_CHANGES, change, diff_options, inside, inside_or_root};
pub(crate) use event::event;
pub(crate) use file::{file_change, file_info, grep_line, mode, name, path, user};
pub(crate) use journal::{journal_entry, log_entry};
pub(crate) use network::{
    granted_for, learned_network, network_ask, network_policy, network_sighting, network_status, new_rules,
    of_rules, unnested,
};
pub(crate) use new_sandbox::{NewParts, nested, new_sandbox};
pub(crate) use port::port;
pub(crate) use process::{
    ExecOrder, checked_port, encoding, exec_order, exec_result, exited, launched, process, process_selector,
    signal_number, start_order, started, terminal_size,
};
pub(crate) use run::{can_run, new_run, run};
pub(crate) use sandbox::{created, death, drain, patch, sandbox, status_named, usage};
pub(crate) use secret::{new_secret, secret};
pub(crate) use server::{health, stats, template};
pub(crate) use session::{acquire, acquired, attach, capabilities, details, session, session_view};
pub(crate) use snapshot::{
    ended_session, fork_order, leave_out, promote_order, promoted, rolled_back, snapshot, snapshot_filter,
    snapshot_name, steps, take_snapshot, taken, turn,
};
pub(crate) use tool::{tool, tool_call, tool_progress, tool_result};
pub(crate) use warren_face::page::page;
pub(crate) use warren_face::time::rfc3339;
pub(crate) use words::{effect, path_state, scope, scope_told};

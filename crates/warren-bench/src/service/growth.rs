//! The cost of more: sandboxes alive on one server, and entries in the history of one sandbox.

mod alive;
mod history;

use super::server::Server;
use crate::session::Session;

/// Rounds at each level of growth.
const ROUNDS: usize = 40;

pub(super) fn measure(session: &mut Session<'_>) -> anyhow::Result<()> {
    session.progress("growth: starting a server");
    let server = Server::start(&session.plan.warren, &session.ground.file("alive"), &[])?;
    alive::measure(session, &server)?;
    drop(server);
    let server = Server::start(&session.plan.warren, &session.ground.file("history"), &[])?;
    history::measure(session, &server.client()?)
}

/// The number of rounds for this run.
fn rounds(session: &Session<'_>) -> usize {
    ROUNDS.min(session.plan.sizes.rounds)
}

/// The names of contenders of these sizes.
fn level_name(level: usize) -> &'static str {
    match level {
        1 => "1",
        100 => "100",
        1000 => "1000",
        _ => "5000",
    }
}

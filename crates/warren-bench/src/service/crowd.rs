use std::time::{Duration, Instant};

use warren_wire::client::Client;

use super::server::Server;
use super::{OWN, create_plain, populate, remove};
use crate::report::Figures;
use crate::session::Session;

/// The time for which an idle server is watched.
const WATCHED: Duration = Duration::from_secs(20);

/// Measures what the server itself needs for many idle sandboxes.
pub(super) fn measure(session: &mut Session<'_>, server: &Server, client: &Client) -> anyhow::Result<()> {
    let count = session.plan.sizes.crowds.last().copied().unwrap_or(100);
    let alive = populate(session, count, || create_plain(client))?;
    session.progress(&format!("watching the server with {count} idle sandboxes"));
    session.enter(&format!("http_idle_{count}"), OWN, count, watch(server));
    session.progress("removing the crowd");
    remove(client, &alive)
}

/// The needs of a server that nobody asks for anything.
pub(super) fn watch(server: &Server) -> Figures {
    let (begun, used) = (Instant::now(), server.processor_time());
    std::thread::sleep(WATCHED);
    let used = server.processor_time().saturating_sub(used);
    Figures::Server {
        memory_mib: server.memory_kib() as f64 / 1024.0,
        core_percent: 100.0 * used.as_secs_f64() / begun.elapsed().as_secs_f64(),
    }
}

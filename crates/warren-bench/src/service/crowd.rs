use std::time::{Duration, Instant};

use warren_wire::client::Client;

use super::create;
use super::server::Server;
use crate::report::Figures;
use crate::session::Session;

/// How long the server is watched doing nothing.
const WATCHED: Duration = Duration::from_secs(20);

/// Many idle sandboxes: what the server itself needs for them.
pub(super) fn measure(session: &mut Session<'_>, server: &Server, client: &Client) -> anyhow::Result<()> {
    let count = session.plan.sizes.crowds.last().copied().unwrap_or(100);
    let mut alive = Vec::new();
    while alive.len() < count {
        alive.push(create(client)?);
        session.go_on()?;
        if alive.len().is_multiple_of(50) {
            session.progress(&format!("{} of {count} alive", alive.len()));
        }
    }
    session.progress(&format!("watching the server with {count} idle sandboxes"));
    let (begun, used) = (Instant::now(), server.processor_time());
    std::thread::sleep(WATCHED);
    let used = server.processor_time().saturating_sub(used);
    let figures = Figures::Server {
        memory_mib: server.memory_kib() as f64 / 1024.0,
        core_percent: 100.0 * used.as_secs_f64() / begun.elapsed().as_secs_f64(),
    };
    session.enter_row(&format!("http_idle_{count}"), count, figures);
    session.progress("removing the crowd");
    for id in &alive {
        client.delete_sandbox(id)?;
    }
    Ok(())
}

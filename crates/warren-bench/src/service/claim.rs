use std::time::Duration;

use super::server::Server;
use super::{OWN, create_lap, yardsticks};
use crate::rounds::{Contender, race};
use crate::session::Session;

/// The settings of a server that keeps sandboxes ready.
const POOL: [&str; 2] = ["--set", "pools.templates={host: 8}"];
const READY: u64 = 8;

/// The pause between two looks at the pool.
const PAUSE: Duration = Duration::from_millis(5);

/// Create to first command on a server with a pool for the template, beside the engine. Every lap
/// begins with a full pool.
pub(super) fn measure(session: &mut Session<'_>) -> anyhow::Result<()> {
    session.progress("starting a server with a pool");
    let server = match Server::start(&session.plan.warren, &session.ground.file("claim"), &POOL) {
        Ok(server) => server,
        Err(error) => {
            session.skip("http_claim", format!("{error:#}"));
            return Ok(());
        }
    };
    let client = server.client()?;
    let mut field = yardsticks(session);
    field.push(Contender::new(OWN, || {
        while client.stats()?.pool_size < READY {
            std::thread::sleep(PAUSE);
        }
        create_lap(&server, &client)
    }));
    race(session, "http_claim", field)
}

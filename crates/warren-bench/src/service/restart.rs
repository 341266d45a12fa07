use std::time::{Duration, Instant};

use super::server::Server;
use super::{create, run_true};
use crate::session::Session;
use crate::statistics::Samples;

const RUNNING: usize = 300;

/// The server is killed with sandboxes running: how long until it answers again, and until every
/// one of them does.
pub(super) fn measure(session: &mut Session<'_>, mut server: Server) -> anyhow::Result<()> {
    let count = RUNNING.min(session.plan.sizes.crowds.last().copied().unwrap_or(RUNNING));
    let client = server.client()?;
    let mut alive = Vec::new();
    while alive.len() < count {
        session.progress(&format!("{} of {count} running", alive.len()));
        alive.push(create(&client)?);
        session.go_on()?;
    }
    session.progress("killing the server and starting it again");
    let begun = Instant::now();
    let answers = server.restart()?;
    let client = server.client()?;
    let lost = alive.iter().filter(|id| run_true(&client, id).is_err()).count();
    let reconciled = begun.elapsed();
    if lost > 0 {
        anyhow::bail!("{lost} of {count} sandboxes were lost in a restart");
    }
    let once = |time: Duration| Samples::from_iter([time]);
    session.enter_times(&format!("http_restart_{count}_answers"), &once(answers));
    session.enter_times(&format!("http_restart_{count}_all_used"), &once(reconciled));
    session.progress("removing the crowd");
    for id in &alive {
        client.delete_sandbox(id)?;
    }
    Ok(())
}

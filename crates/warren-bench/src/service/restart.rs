use std::time::Instant;

use super::server::Server;
use super::{OWN, create_plain, populate, remove, run_true};
use crate::session::Session;
use crate::statistics::Samples;

const RUNNING: usize = 300;

/// Kills the server with sandboxes running, and measures the time until it answers again, and until
/// every sandbox does.
pub(super) fn measure(session: &mut Session<'_>, mut server: Server) -> anyhow::Result<()> {
    let count = RUNNING.min(session.plan.sizes.crowds.last().copied().unwrap_or(RUNNING));
    let client = server.client()?;
    let alive = populate(session, count, || create_plain(&client))?;
    session.progress("killing the server and starting it again");
    let begun = Instant::now();
    let answers = server.restart()?;
    let client = server.client()?;
    let lost = alive.iter().filter(|id| run_true(&client, id).is_err()).count();
    let reconciled = begun.elapsed();
    if lost > 0 {
        anyhow::bail!("{lost} of {count} sandboxes were lost in a restart");
    }
    for (what, time) in [("answers", answers), ("all_used", reconciled)] {
        session.enter_times(&format!("http_restart_{count}_{what}"), OWN, &Samples::from_iter([time]));
    }
    session.progress("removing the crowd");
    remove(&client, &alive)
}

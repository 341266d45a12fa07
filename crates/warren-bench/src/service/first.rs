use std::fs;

use super::create_lap;
use super::server::Server;
use crate::errand::Errand;
use crate::session::Session;
use crate::statistics::Samples;

/// Creates after the first, in each directory.
const LATER: usize = 10;

/// Measures the first create in a data directory that nobody has used, against those that follow:
/// over HTTP on a server that has just started, and by `warren run`.
pub(super) fn measure(session: &mut Session<'_>) -> anyhow::Result<()> {
    let (mut served, mut run) = (Ends::default(), Ends::default());
    let rounds = session.plan.sizes.long_rounds;
    for round in 0..rounds {
        session.progress(&format!("first_create: round {} of {rounds}", round + 1));
        let server = Server::start(&session.plan.warren, &session.ground.file("first"), &[])?;
        serve(&server, &mut served)?;
        drop(server);
        command(session, &mut run)?;
        session.go_on()?;
    }
    for (case, ends) in [("first_create", served), ("first_run", run)] {
        session.enter_times(case, "first", &ends.first);
        session.enter_times(case, "later", &ends.later);
    }
    Ok(())
}

#[derive(Default)]
struct Ends {
    first: Samples,
    later: Samples,
}

fn serve(server: &Server, ends: &mut Ends) -> anyhow::Result<()> {
    let client = server.client()?;
    ends.first.push(create_lap(server, &client)?.time);
    for _ in 0..LATER {
        ends.later.push(create_lap(server, &client)?.time);
    }
    Ok(())
}

fn command(session: &Session<'_>, ends: &mut Ends) -> anyhow::Result<()> {
    let folder = session.ground.file("first-run");
    let (program, data_dir) = (session.plan.warren.to_string_lossy(), folder.to_string_lossy());
    let words = [&*program, "--data-dir", &*data_dir, "run", "--net", "none", "--", "/bin/true"];
    let errand = Errand::new(words);
    ends.first.push(errand.time()?);
    for _ in 0..LATER {
        ends.later.push(errand.time()?);
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}

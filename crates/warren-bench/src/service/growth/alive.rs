use std::time::Instant;

use warren_wire::api::TakeSnapshot;
use warren_wire::client::Client;

use super::super::crowd::watch;
use super::super::server::Server;
use super::super::{create_lap, create_plain, exec, exec_lap, populate, remove, yardsticks};
use super::rounds;
use crate::report::Figures;
use crate::rounds::{Contender, race_for};
use crate::session::Session;
use crate::statistics::Lap;

/// Measures create, exec and snapshot with more and more sandboxes alive, and the needs of the
/// server when nobody asks for anything: that is the cost of its sweeps. Bubblewrap takes turns, to
/// tell whether the machine itself got slower.
pub(super) fn measure(session: &mut Session<'_>, server: &Server) -> anyhow::Result<()> {
    let client = server.client()?;
    let mut alive = Vec::new();
    for &level in session.plan.sizes.alive {
        let missing = level.saturating_sub(alive.len());
        alive.extend(populate(session, missing, || create_plain(&client))?);
        let case = format!("growth_alive_{level}");
        if let Some(kept) = alive.first() {
            let mut field = yardsticks(session);
            field.push(Contender::new("create", || create_lap(server, &client)));
            field.push(Contender::new("exec", || exec_lap(&client, kept)));
            field.push(Contender::new("snapshot", || snapshot_lap(&client, kept)));
            race_for(session, &case, rounds(session), field)?;
        }
        session.progress(&format!("{case}: watching the server"));
        session.enter(&case, "server", level, watch(server));
        session.enter(&case, "catalog", level, Figures::Size { mib: server.catalog_mib() });
    }
    session.progress("removing the crowd");
    remove(&client, &alive)
}

/// A snapshot of a sandbox that has just written a little.
pub(super) fn snapshot_lap(client: &Client, id: &str) -> anyhow::Result<Lap> {
    exec(client, id, ["/bin/sh", "-ec", "echo more >> /home/user/notes"])?;
    let begun = Instant::now();
    client.take_snapshot(id, &TakeSnapshot::default())?;
    Ok(Lap::of(begun.elapsed()))
}

//! The cost of history: taking a snapshot, going back, forking, standing on many layers, and
//! finding a culprit.

mod depth;
mod forks;
mod peers;
mod sizes;

use std::process::Command;
use std::time::Instant;

use warren_wire::api::{CreateSandbox, HistoryMode, Rollback, TakeSnapshot};
use warren_wire::client::Client;

use super::server::Server;
use super::{OWN, exec, yardsticks};
use crate::errand::output_of;
use crate::plan::Case;
use crate::rounds::{Contender, race_for};
use crate::session::Session;
use crate::statistics::{Lap, Samples};

pub(super) fn measure(session: &mut Session<'_>, server: &Server, client: &Client) -> anyhow::Result<()> {
    if session.wants(Case::SnapshotIdle) {
        let measured = idle_snapshots(session, server, client);
        session.attempt("snapshot_idle", measured)?;
    }
    if session.wants(Case::Snapshot) {
        let measured = sizes::measure(session, client);
        session.attempt("snapshot", measured)?;
    }
    if session.wants(Case::Rollback) {
        let measured = rollbacks(session, server, client);
        session.attempt("rollback", measured)?;
    }
    if session.wants(Case::Fork) {
        let measured = forks::measure(session, server, client);
        session.attempt("fork", measured)?;
    }
    if session.wants(Case::Depth) {
        let measured = depth::measure(session, client);
        session.attempt("depth", measured)?;
    }
    if session.wants(Case::Bisect) {
        let measured = bisect(session, server, client);
        session.attempt("bisect", measured)?;
    }
    Ok(())
}

/// A snapshot of a sandbox that wrote a little, beside the engine's create.
fn idle_snapshots(session: &mut Session<'_>, server: &Server, client: &Client) -> anyhow::Result<()> {
    let id = create(client, HistoryMode::Off)?;
    let mut field = yardsticks(session);
    field.push(Contender::new(OWN, || {
        shell(client, &id, "echo more >> /home/user/notes")?;
        let begun = Instant::now();
        client.take_snapshot(&id, &TakeSnapshot::default())?;
        let time = begun.elapsed();
        server.settle();
        Ok(Lap::of(time))
    }));
    race_for(session, "snapshot_idle", session.plan.sizes.rounds.min(MOST_ROUNDS), field)?;
    client.delete_sandbox(&id)?;
    Ok(())
}

fn rollbacks(session: &mut Session<'_>, server: &Server, client: &Client) -> anyhow::Result<()> {
    let id = create(client, HistoryMode::Off)?;
    shell(client, &id, "head -c 10M /dev/zero > /home/user/file")?;
    let to = client.take_snapshot(&id, &TakeSnapshot::default())?.snapshot_id;
    let mut field = yardsticks(session);
    field.push(Contender::new(OWN, || {
        shell(client, &id, "echo changed > /home/user/file")?;
        let begun = Instant::now();
        client.rollback(&id, &Rollback { snapshot_id: to.clone(), force: false })?;
        let time = begun.elapsed();
        server.settle();
        Ok(Lap::of(time))
    }));
    race_for(session, "rollback", session.plan.sizes.rounds.min(MOST_ROUNDS), field)?;
    client.delete_sandbox(&id)?;
    Ok(())
}

/// More would leave more states than a sandbox has in an hour.
const MOST_ROUNDS: usize = 100;

/// The number of commands between the good state and the bad one.
const COMMANDS: usize = 64;

fn bisect(session: &mut Session<'_>, server: &Server, client: &Client) -> anyhow::Result<()> {
    let id = create(client, HistoryMode::Commands)?;
    let good = client.take_snapshot(&id, &TakeSnapshot::default())?.snapshot_id;
    for number in 0..COMMANDS {
        session.progress(&format!("bisect: command {number} of {COMMANDS}"));
        shell(client, &id, &format!("echo {number} >> /home/user/steps"))?;
    }
    let bad = client.take_snapshot(&id, &TakeSnapshot::default())?.snapshot_id;
    session.progress("bisect: searching");
    let begun = Instant::now();
    output_of(
        Command::new(&session.plan.warren)
            .args(["bisect", &id, "--good", &good, "--bad", &bad, "--", "sh", "-c"])
            .arg("! grep -qx 40 /home/user/steps")
            .envs(server.variables()),
    )?;
    session.enter_times(&format!("bisect_{COMMANDS}"), OWN, &Samples::from_iter([begun.elapsed()]));
    client.delete_sandbox(&id)?;
    Ok(())
}

fn create(client: &Client, history: HistoryMode) -> anyhow::Result<String> {
    super::create(client, &CreateSandbox { history: Some(history), ..CreateSandbox::default() })
}

fn shell(client: &Client, id: &str, script: &str) -> anyhow::Result<()> {
    exec(client, id, ["/bin/sh", "-ec", script]).map(drop)
}

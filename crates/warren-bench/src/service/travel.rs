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
use super::{OWN, exec};
use crate::errand::output_of;
use crate::plan::Case;
use crate::session::Session;
use crate::statistics::Samples;

pub(super) fn measure(session: &mut Session<'_>, server: &Server, client: &Client) -> anyhow::Result<()> {
    if session.wants(Case::Snapshot) {
        sizes::measure(session, client)?;
    }
    if session.wants(Case::Rollback) {
        rollbacks(session, client)?;
    }
    if session.wants(Case::Fork) {
        forks::measure(session, client)?;
    }
    if session.wants(Case::Depth) {
        depth::measure(session, client)?;
    }
    if session.wants(Case::Bisect) {
        bisect(session, server, client)?;
    }
    Ok(())
}

fn rollbacks(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let id = create(client, HistoryMode::Off)?;
    shell(client, &id, "head -c 10M /dev/zero > /home/user/file")?;
    let to = client.take_snapshot(&id, &TakeSnapshot::default())?.snapshot_id;
    let mut samples = Samples::default();
    for round in 0..session.plan.sizes.rounds.min(50) {
        session.progress(&format!("rollback: round {round}"));
        shell(client, &id, "echo changed > /home/user/file")?;
        let begun = Instant::now();
        client.rollback(&id, &Rollback { snapshot_id: to.clone(), force: false })?;
        samples.push(begun.elapsed());
        session.go_on()?;
    }
    session.enter_times("rollback", OWN, &samples);
    client.delete_sandbox(&id)?;
    Ok(())
}

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

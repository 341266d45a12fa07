//! What history costs: taking a snapshot, going back, forking, standing on many layers, finding a
//! culprit.

mod depth;
mod forks;
mod peers;
mod sizes;

use std::time::Instant;

use warren_wire::api::{Command, CreateSandbox, Exec, HistoryMode, Rollback, TakeSnapshot};
use warren_wire::client::Client;

use super::server::Server;
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
    session.enter_times("rollback", &samples);
    client.delete_sandbox(&id)?;
    Ok(())
}

/// How many commands lie between the good state and the bad one.
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
    let output = std::process::Command::new(&session.plan.warren)
        .args(["bisect", &id, "--good", &good, "--bad", &bad, "--", "sh", "-c"])
        .arg("! grep -qx 40 /home/user/steps")
        .envs(server.variables())
        .output()?;
    let time = begun.elapsed();
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        anyhow::bail!("bisect failed: {reason}");
    }
    session.enter_times(&format!("bisect_{COMMANDS}"), &[time].into_iter().collect());
    client.delete_sandbox(&id)?;
    Ok(())
}

fn create(client: &Client, history: HistoryMode) -> anyhow::Result<String> {
    let body = CreateSandbox { history: Some(history), ..CreateSandbox::default() };
    Ok(client.create_sandbox(&body, None)?.sandbox_id)
}

fn shell(client: &Client, id: &str, script: &str) -> anyhow::Result<()> {
    let words = ["/bin/sh", "-ec", script].map(str::to_owned).to_vec();
    let body = Exec { command: Command::Words(words), ..Exec::default() };
    match client.exec(id, &body)?.exit_code {
        0 => Ok(()),
        code => Err(anyhow::anyhow!("`{script}` ended with {code}")),
    }
}

use std::time::Instant;

use warren_wire::api::{CreateSandbox, HistoryMode, Steps};
use warren_wire::client::{Client, JournalQuery};

use super::super::{create, exec, exec_lap, remove};
use super::alive::snapshot_lap;
use super::{level_name, rounds};
use crate::rounds::{Contender, race_for};
use crate::session::Session;
use crate::statistics::Lap;

/// The files that commands write in turn.
const FILES: usize = 100;
/// One of them, which no lap writes.
const ASKED: &str = "/home/user/file-0";

/// Measures sandboxes with shorter and longer histories, taking turns on one server.
pub(super) fn measure(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let mut sandboxes = Vec::new();
    for &level in session.plan.sizes.history {
        sandboxes.push((level_name(level), with_history(session, client, level)?));
    }
    type Ask = fn(&Client, &str) -> anyhow::Result<Lap>;
    let asks: [(&str, Ask); 5] =
        [("exec", exec_lap), ("log", log), ("blame", blame), ("snapshot", snapshot_lap), ("undo", undo)];
    for (what, ask) in asks {
        let field =
            sandboxes.iter().map(|(name, id)| Contender::new(name, move || ask(client, id))).collect();
        race_for(session, &format!("growth_history_{what}"), rounds(session), field)?;
    }
    let ids: Vec<String> = sandboxes.into_iter().map(|(_, id)| id).collect();
    remove(client, &ids)
}

/// A sandbox in which so many commands have written something.
fn with_history(session: &Session<'_>, client: &Client, level: usize) -> anyhow::Result<String> {
    let id =
        create(client, &CreateSandbox { history: Some(HistoryMode::Commands), ..CreateSandbox::default() })?;
    for entry in 0..level {
        exec(client, &id, ["/bin/sh", "-ec", &format!("echo {entry} > /home/user/file-{}", entry % FILES)])?;
        if entry.is_multiple_of(100) {
            session.progress(&format!("growth_history: entry {entry} of {level}"));
            session.go_on()?;
        }
    }
    Ok(id)
}

/// The newest entries, as `warren log` shows them.
fn log(client: &Client, id: &str) -> anyhow::Result<Lap> {
    let begun = Instant::now();
    client.journal(id, &JournalQuery { limit: Some(50), ..JournalQuery::default() })?;
    Ok(Lap::of(begun.elapsed()))
}

fn blame(client: &Client, id: &str) -> anyhow::Result<Lap> {
    let begun = Instant::now();
    client.blame(id, ASKED)?;
    Ok(Lap::of(begun.elapsed()))
}

fn undo(client: &Client, id: &str) -> anyhow::Result<Lap> {
    exec(client, id, ["/bin/sh", "-ec", "echo more >> /home/user/notes"])?;
    let begun = Instant::now();
    client.undo(id, &Steps { steps: 1, force: false })?;
    Ok(Lap::of(begun.elapsed()))
}

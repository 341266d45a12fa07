use std::time::{Duration, Instant};

use warren_wire::api::{Fork, HistoryMode, TakeSnapshot};
use warren_wire::client::Client;

use super::super::server::Server;
use super::super::{OWN, burst, create_lap, remove, run_true};
use super::{create, shell};
use crate::crowd::{memory_row, used_memory};
use crate::errand::joined;
use crate::rounds::{Contender, race_for};
use crate::session::Session;
use crate::statistics::Lap;

/// Measures the time until every fork of a snapshot with ten megabytes has answered a command, and
/// the memory of each. One takes turns with a create, a hundred with a burst of as many.
pub(super) fn measure(session: &mut Session<'_>, server: &Server, client: &Client) -> anyhow::Result<()> {
    let id = create(client, HistoryMode::Off)?;
    shell(client, &id, "head -c 10M /dev/urandom > /home/user/file")?;
    let snapshot = client.take_snapshot(&id, &TakeSnapshot::default())?.snapshot_id;
    let (few, many) = (session.plan.sizes.rounds.min(50), session.plan.sizes.long_rounds);
    for (count, rounds) in [(1, few), (10, many), (100, many)] {
        let mut field = vec![Contender::new(OWN, || fork_lap(server, client, &snapshot, count))];
        match count {
            1 => field.push(Contender::new("create", || create_lap(server, client))),
            100 => field.push(Contender::new("burst", || burst::lap(server, client))),
            _ => {}
        }
        race_for(session, &format!("fork_{count}"), rounds, field)?;
    }
    memory(session, client, &snapshot)?;
    client.delete_sandbox(&id)?;
    Ok(())
}

/// The removal is not counted.
fn fork_lap(server: &Server, client: &Client, snapshot: &str, count: u32) -> anyhow::Result<Lap> {
    let (time, forks) = fork(client, snapshot, count)?;
    remove(client, &forks)?;
    server.settle();
    Ok(Lap::of(time))
}

fn fork(client: &Client, snapshot: &str, count: u32) -> anyhow::Result<(Duration, Vec<String>)> {
    let begun = Instant::now();
    let forks = client.fork_snapshot(snapshot, &Fork { count, ..Fork::default() })?;
    let ids: Vec<String> = forks.sandboxes.into_iter().map(|sandbox| sandbox.sandbox_id).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = ids
            .chunks(ids.len().div_ceil(8).max(1))
            .map(|ids| {
                scope.spawn(move || {
                    let client = Client::new(client.base(), client.key())?;
                    ids.iter().try_for_each(|id| run_true(&client, id))
                })
            })
            .collect();
        threads.into_iter().try_for_each(joined)
    })?;
    Ok((begun.elapsed(), ids))
}

/// Measures the machine's memory for each of a hundred forks that have written nothing.
fn memory(session: &mut Session<'_>, client: &Client, snapshot: &str) -> anyhow::Result<()> {
    session.progress("fork: memory");
    let (_, warm) = fork(client, snapshot, 100)?;
    remove(client, &warm)?;
    std::thread::sleep(Duration::from_secs(2));
    let before = used_memory();
    let (_, forks) = fork(client, snapshot, 100)?;
    let with = used_memory();
    remove(client, &forks)?;
    std::thread::sleep(Duration::from_secs(2));
    let mut row = memory_row(100, [before, used_memory()], with);
    row.case = "fork_memory".to_owned();
    session.report.rows.push(row);
    Ok(())
}

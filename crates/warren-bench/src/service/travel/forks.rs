use std::time::{Duration, Instant};

use warren_wire::api::{Fork, HistoryMode, TakeSnapshot};
use warren_wire::client::Client;

use super::super::{OWN, remove, run_true};
use super::{create, shell};
use crate::crowd::{memory_row, used_memory};
use crate::errand::joined;
use crate::session::Session;
use crate::statistics::Samples;

const COUNTS: [u32; 3] = [1, 10, 100];

/// Measures the time until every fork of a snapshot with ten megabytes has answered a command, and
/// the memory of each.
pub(super) fn measure(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let id = create(client, HistoryMode::Off)?;
    shell(client, &id, "head -c 10M /dev/urandom > /home/user/file")?;
    let snapshot = client.take_snapshot(&id, &TakeSnapshot::default())?.snapshot_id;
    for count in COUNTS {
        let case = format!("fork_{count}");
        let rounds =
            if count == 1 { session.plan.sizes.rounds.min(30) } else { session.plan.sizes.windows.max(2) };
        let mut samples = Samples::default();
        for round in 0..=rounds {
            session.progress(&format!("{case}: round {round} of {rounds}"));
            let (time, forks) = fork(client, &snapshot, count)?;
            remove(client, &forks)?;
            // The first one warms up.
            if round > 0 {
                samples.push(time);
            }
            session.go_on()?;
        }
        session.enter_times(&case, OWN, &samples);
    }
    memory(session, client, &snapshot)?;
    client.delete_sandbox(&id)?;
    Ok(())
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

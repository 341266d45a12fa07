use std::time::{Duration, Instant};

use warren_wire::api::{HistoryMode, TakeSnapshot};
use warren_wire::client::Client;

use super::super::OWN;
use super::peers::Peers;
use super::{create, shell};
use crate::session::Session;
use crate::statistics::Samples;

/// The files that are written before a snapshot is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) files: usize,
    pub(super) bytes: usize,
    /// Takes part in every n-th round.
    every: usize,
    /// The others take seconds.
    pub(super) peer_rounds: usize,
}

const LOADS: [Load; 4] = [
    Load { name: "10mb_1000_files", files: 1_000, bytes: 10 << 20, every: 1, peer_rounds: 3 },
    Load { name: "100mb_10000_files", files: 10_000, bytes: 100 << 20, every: 1, peer_rounds: 1 },
    Load { name: "1gb_1000_files", files: 1_000, bytes: 1 << 30, every: 1, peer_rounds: 1 },
    Load { name: "1gb_50000_files", files: 50_000, bytes: 1 << 30, every: 3, peer_rounds: 1 },
];

impl Load {
    fn case(&self) -> String {
        format!("snapshot_{}", self.name)
    }

    /// A program that writes it into a directory of its own.
    pub(super) fn script(&self, directory: &str) -> String {
        let each = self.bytes / self.files;
        format!(
            "python3 -c 'import os\nd=\"{directory}\"\nos.makedirs(d, exist_ok=True)\nb=os.urandom({each})\nfor n in range({}):\n \
             s=f\"{{d}}/{{n//1000}}\"\n os.makedirs(s, exist_ok=True)\n open(f\"{{s}}/{{n}}\",\"wb\").write(b)'",
            self.files
        )
    }
}

/// Measures Warren's snapshot of a sandbox that has just written each load, loads taking turns, and
/// the time in which others copy as much.
pub(super) fn measure(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let loads = if session.plan.sizes.quick() { &LOADS[..3] } else { LOADS.as_slice() };
    let rounds = session.plan.sizes.long_rounds;
    let mut samples = vec![Samples::default(); loads.len()];
    // The first round warms up.
    for round in 0..=rounds {
        for (load, samples) in loads.iter().zip(&mut samples) {
            if round % load.every != 0 {
                continue;
            }
            session.progress(&format!("{}: round {round} of {rounds}", load.case()));
            let time = snapshot(client, load)?;
            if round > 0 {
                samples.push(time);
            }
            session.go_on()?;
        }
    }
    for (load, samples) in loads.iter().zip(&samples) {
        session.enter_times(&load.case(), OWN, samples);
        Peers::ready(session, load)?.measure(session, &load.case())?;
    }
    Ok(())
}

fn snapshot(client: &Client, load: &Load) -> anyhow::Result<Duration> {
    let id = create(client, HistoryMode::Off)?;
    shell(client, &id, &load.script("/home/user/load"))?;
    let begun = Instant::now();
    client.take_snapshot(&id, &TakeSnapshot::default())?;
    let time = begun.elapsed();
    client.delete_sandbox(&id)?;
    Ok(time)
}

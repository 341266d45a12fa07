use std::time::Instant;

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
    rounds: usize,
    /// The others take seconds.
    pub(super) peer_rounds: usize,
}

const LOADS: [Load; 4] = [
    Load { name: "10mb_1000_files", files: 1_000, bytes: 10 << 20, rounds: 10, peer_rounds: 3 },
    Load { name: "100mb_10000_files", files: 10_000, bytes: 100 << 20, rounds: 5, peer_rounds: 1 },
    Load { name: "1gb_1000_files", files: 1_000, bytes: 1 << 30, rounds: 3, peer_rounds: 1 },
    Load { name: "1gb_50000_files", files: 50_000, bytes: 1 << 30, rounds: 2, peer_rounds: 1 },
];

impl Load {
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

/// Measures Warren's snapshot of a sandbox that has just written each load, and the time in which
/// others copy as much.
pub(super) fn measure(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let loads = if session.plan.sizes.crowds.len() > 1 { LOADS.as_slice() } else { &LOADS[..2] };
    for load in loads {
        let case = format!("snapshot_{}", load.name);
        let peers = Peers::ready(session, load)?;
        let mut samples = Samples::default();
        for round in 0..load.rounds {
            session.progress(&format!("{case}: round {} of {}", round + 1, load.rounds));
            let id = create(client, HistoryMode::Off)?;
            shell(client, &id, &load.script("/home/user/load"))?;
            let begun = Instant::now();
            client.take_snapshot(&id, &TakeSnapshot::default())?;
            samples.push(begun.elapsed());
            client.delete_sandbox(&id)?;
            session.go_on()?;
        }
        session.enter_times(&case, OWN, &samples);
        peers.measure(session, &case)?;
    }
    Ok(())
}

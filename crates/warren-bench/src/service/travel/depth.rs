use std::time::{Duration, Instant};

use warren_wire::api::{Fork, HistoryMode, TakeSnapshot};
use warren_wire::client::Client;

use super::super::OWN;
use super::{create, shell};
use crate::session::Session;
use crate::statistics::Samples;

const DEPTHS: [usize; 3] = [1, 50, 200];
/// The time that a squash may take to catch up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures a fork from the last of many snapshots, each with a change in a directory of a thousand
/// files, and then the first look at all files.
pub(super) fn measure(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    for depth in DEPTHS {
        let id = create(client, HistoryMode::Off)?;
        shell(client, &id, "mkdir /home/user/d; cd /home/user/d; seq 1000 | xargs touch")?;
        let mut last = client.take_snapshot(&id, &TakeSnapshot::default())?;
        for number in 1..depth {
            session.progress(&format!("depth_{depth}: snapshot {number}"));
            shell(client, &id, &format!("echo x > /home/user/d/{number}"))?;
            last = client.take_snapshot(&id, &TakeSnapshot::default())?;
            session.go_on()?;
        }
        std::thread::sleep(PATIENCE.min(Duration::from_millis(20) * u32::try_from(depth).unwrap_or(1)));
        let (mut mounts, mut stats) = (Samples::default(), Samples::default());
        for _ in 0..10 {
            let begun = Instant::now();
            let forks = client.fork_snapshot(&last.snapshot_id, &Fork::default())?;
            mounts.push(begun.elapsed());
            for fork in forks.sandboxes {
                let begun = Instant::now();
                shell(client, &fork.sandbox_id, "ls -l /home/user/d > /dev/null")?;
                stats.push(begun.elapsed());
                client.delete_sandbox(&fork.sandbox_id)?;
            }
        }
        session.enter_times(&format!("depth_{depth}_fork"), OWN, &mounts);
        session.enter_times(&format!("depth_{depth}_stat_1000"), OWN, &stats);
        client.delete_sandbox(&id)?;
    }
    Ok(())
}

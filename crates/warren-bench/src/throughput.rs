use std::time::{Duration, Instant};

use crate::errand::{Tally, Work};
use crate::peers::TRUE;
use crate::plan::{PREPARED, Subject, WORKERS};
use crate::session::Session;

/// Measures sandboxes per second with several at once, until the background has cleared up.
/// Warren's are only made and destroyed, and in a row of their own run a command, as the others do
/// that cannot do without.
pub(crate) fn measure(session: &mut Session<'_>) -> anyhow::Result<()> {
    let mut names: Vec<&'static str> = Vec::new();
    if session.takes(Subject::Warren) {
        names.extend([BARE, WITH_COMMAND, PREPARED]);
    }
    let peers = session.peers.iter().map(|peer| peer.subject);
    names.extend(peers.filter(|peer| matches!(peer, Subject::Bwrap | Subject::Crun)).map(Subject::name));
    for workers in WORKERS {
        let case = format!("creates_per_second_{workers}");
        let work = Work { workers, window: session.plan.sizes.window };
        let mut tallies: Vec<Result<Tally, String>> =
            names.iter().map(|_| Ok(Tally { count: 0, elapsed: Duration::ZERO })).collect();
        for _ in 0..session.plan.sizes.windows {
            for (name, tally) in names.iter().zip(&mut tallies) {
                session.progress(&format!("{case}: {name}"));
                match (slice(session, name, work), &mut *tally) {
                    (Ok(more), Ok(sum)) => sum.add(more),
                    (Err(error), Ok(_)) => *tally = Err(format!("{error:#}")),
                    (_, Err(_)) => {}
                }
                session.go_on()?;
            }
        }
        for (name, tally) in names.iter().zip(tallies) {
            match tally {
                Ok(tally) => session.enter_rate(&case, name, &tally),
                Err(reason) => session.skip(name, format!("{case}: {reason}")),
            }
        }
    }
    Ok(())
}

const BARE: &str = "warren";
const WITH_COMMAND: &str = "warren_true";

fn slice(session: &Session<'_>, name: &str, work: Work) -> anyhow::Result<Tally> {
    let engine = if name == PREPARED { session.prepared } else { session.engine };
    let stop = &session.stop;
    let begun = Instant::now();
    let tally = match name {
        BARE | PREPARED => work.share(stop, |_| || engine.create().and_then(|id| engine.destroy(&id)))?,
        WITH_COMMAND => work.share(stop, |_| || engine.create_and_run(&TRUE))?,
        other => {
            let peer = session.peers.iter().find(|peer| peer.subject.name() == other);
            let peer = peer.ok_or_else(|| anyhow::anyhow!("{other} is not there"))?;
            return Ok(peer.repeat(&peer.run_true, work, stop)?);
        }
    };
    engine.settle()?;
    Ok(Tally { elapsed: begun.elapsed(), ..tally })
}

use std::time::Instant;

use crate::errand::{Tally, Work};
use crate::peers::TRUE;
use crate::plan::{PREPARED, Subject, WORKERS};
use crate::session::Session;

/// Measures sandboxes per second with several at once, until the background has cleared up.
/// Warren's are only made and destroyed, and in a row of their own run a command, as the others do
/// that cannot do without. Subjects and numbers of workers take turns, window by window.
pub(crate) fn measure(session: &mut Session<'_>) -> anyhow::Result<()> {
    let mut names: Vec<&'static str> = Vec::new();
    if session.takes(Subject::Warren) {
        names.extend([BARE, WITH_COMMAND, PREPARED]);
    }
    let peers = session.peers.iter().map(|peer| peer.subject);
    names.extend(peers.filter(|peer| matches!(peer, Subject::Bwrap | Subject::Crun)).map(Subject::name));
    let each = |workers| names.iter().map(move |&name| Series { workers, name, windows: Ok(Vec::new()) });
    let mut all: Vec<Series> = WORKERS.into_iter().flat_map(each).collect();
    // The first window of each warms up.
    for window in 0..=session.plan.sizes.windows {
        for series in &mut all {
            session.progress(&format!("{}: {}, window {window}", series.case(), series.name));
            let work = Work { workers: series.workers, window: session.plan.sizes.window };
            let Ok(windows) = &mut series.windows else { continue };
            match slice(session, series.name, work) {
                Ok(_) if window == 0 => {}
                Ok(tally) => windows.push(tally),
                Err(error) => series.windows = Err(format!("{error:#}")),
            }
            session.go_on()?;
        }
    }
    for series in all {
        match &series.windows {
            Ok(windows) => session.enter_rate(&series.case(), series.name, windows),
            Err(reason) => session.fail(series.name, format!("{}: {reason}", series.case())),
        }
    }
    Ok(())
}

/// One subject with so many workers.
struct Series {
    workers: usize,
    name: &'static str,
    /// Or the reason why it takes no part any more.
    windows: Result<Vec<Tally>, String>,
}

impl Series {
    fn case(&self) -> String {
        format!("creates_per_second_{}", self.workers)
    }
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

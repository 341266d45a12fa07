use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use warren_wire::client::Client;

use super::server::Server;
use super::{OWN, create_plain, remove, run_true};
use crate::engine::Engine;
use crate::errand::joined;
use crate::rounds::{Contender, race_for};
use crate::session::Session;
use crate::statistics::Lap;

/// The number of sandboxes that are asked for at once.
pub(super) const BURST: usize = 100;

/// Makes many at once, beside the engine that makes as many with a few workers: its best is the
/// time that a hundred take at the most creates per second.
pub(super) fn measure(session: &mut Session<'_>, server: &Server, client: &Client) -> anyhow::Result<()> {
    let engine = session.engine;
    let by_engine = [("engine_2", 2), ("engine_4", 4), ("engine_8", 8)];
    let mut field: Vec<Contender<'_>> =
        by_engine.map(|(name, workers)| Contender::new(name, move || engine_lap(engine, workers))).into();
    field.push(Contender::new(OWN, || lap(server, client)));
    race_for(session, &format!("http_burst_{BURST}"), session.plan.sizes.long_rounds, field)
}

/// The burst alone is counted, not the removal.
pub(super) fn lap(server: &Server, client: &Client) -> anyhow::Result<Lap> {
    let (time, ids) = burst(client)?;
    remove(client, &ids)?;
    server.settle();
    Ok(Lap::of(time))
}

/// Each over a connection of its own, until the last has run its first command.
fn burst(client: &Client) -> anyhow::Result<(Duration, Vec<String>)> {
    let begun = Instant::now();
    let made = std::thread::scope(|scope| {
        let one = || {
            let client = Client::new(client.base(), client.key())?;
            let id = create_plain(&client)?;
            run_true(&client, &id).map(|()| id)
        };
        let threads: Vec<_> = (0..BURST).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(joined).collect::<anyhow::Result<Vec<String>>>()
    });
    let time = begun.elapsed();
    made.map(|ids| (time, ids))
}

/// As many made and destroyed, until the background has cleared up.
fn engine_lap(engine: &Engine, workers: usize) -> anyhow::Result<Lap> {
    let (begun, taken) = (Instant::now(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let work = || {
            while taken.fetch_add(1, Ordering::Relaxed) < BURST {
                engine.create().and_then(|id| engine.destroy(&id))?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(joined::<anyhow::Result<()>>)
    })?;
    engine.settle()?;
    Ok(Lap::of(begun.elapsed()))
}

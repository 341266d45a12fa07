//! The cost of a network: making a sandbox with one, the thousandth of them, bytes through it, and
//! connections under a policy by name.
//!
//! The world is a namespace behind a link of this machine, with documentation addresses. Sandboxes
//! are compared with another namespace, linked and masqueraded as simply as it can be done by hand.

mod world;

use std::time::{Duration, Instant};

use warren_wire::api::{CreateSandbox, NetworkMode, NetworkRequest};
use warren_wire::client::Client;

use self::world::{NAME, World};

pub(super) use self::world::RESOLVER;

use super::{create, exec, populate, remove, run_true};
use crate::plan::Case;
use crate::report::Figures;
use crate::rounds::{Contender, race};
use crate::session::Session;
use crate::statistics::{Lap, Samples};

pub(super) fn measure(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    if session.wants(Case::NetworkCreate) {
        creates(session, client)?;
    }
    if session.wants(Case::NetworkCrowd) {
        crowd(session, client)?;
    }
    if !session.wants(Case::NetworkTraffic) {
        return Ok(());
    }
    session.progress("making a world");
    match World::new(session.ground) {
        Ok(world) => traffic(session, client, &world),
        Err(error) => {
            session.skip("network_traffic", format!("{error:#}"));
            Ok(())
        }
    }
}

/// Create to first command with and without a network, taking turns.
fn creates(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let lap = |mode: NetworkMode| {
        move || {
            let begun = Instant::now();
            let id = create_in(client, &in_mode(mode))?;
            run_true(client, &id)?;
            let time = begun.elapsed();
            client.delete_sandbox(&id)?;
            Ok(Lap::of(time))
        }
    };
    let field = vec![
        Contender::new("network_none", lap(NetworkMode::None)),
        Contender::new("network_public", lap(NetworkMode::Public)),
    ];
    race(session, "network_create", field)
}

/// The number of the first and of the last that are compared.
const EDGE: usize = 25;

fn crowd(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let count = session.plan.sizes.crowds.last().copied().unwrap_or(100);
    let (public, mut times) = (in_mode(NetworkMode::Public), Vec::new());
    let alive = populate(session, count, || {
        let begun = Instant::now();
        create_in(client, &public).inspect(|_| times.push(begun.elapsed()))
    })?;
    let edge = EDGE.min(count / 2);
    let case = format!("network_create_at_{count}");
    // The very first finds a stock that nobody has used yet, and a cold server.
    let first: Samples = times.iter().skip(5).take(edge).copied().collect();
    let last: Samples = times.iter().rev().take(edge).copied().collect();
    for (subject, samples) in [("create_first", first), ("create_last", last)] {
        session.enter_times(&case, subject, &samples);
    }
    session.progress("removing the crowd");
    remove(client, &alive)
}

fn traffic(session: &mut Session<'_>, client: &Client, world: &World) -> anyhow::Result<()> {
    let public = create_in(client, &in_mode(NetworkMode::Public))?;
    let listed = NetworkRequest { allow: vec![NAME.to_owned()], ..in_mode(NetworkMode::Allow) };
    let listed = create_in(client, &listed)?;
    let mut rates = [Samples::default(), Samples::default(), Samples::default()];
    let mut waits = [Samples::default(), Samples::default(), Samples::default()];
    for round in 0..session.plan.sizes.windows.max(2) * 2 {
        session.progress(&format!("network_traffic: round {round}"));
        // One after the other, so that all meet the same machine.
        for (samples, script) in [(&mut rates, world::SEND), (&mut waits, world::CONNECT)] {
            let inside = |id: &str| exec(client, id, ["python3", "-c", script]);
            let printed = [world.beside(script)?, inside(&public)?, inside(&listed)?];
            for (samples, printed) in samples.iter_mut().zip(printed) {
                samples.push(seconds(&printed)?);
            }
        }
        session.go_on()?;
    }
    for (index, subject) in ["bare_veth", "network_public", "network_allow"].into_iter().enumerate() {
        let each = rates[index].median_ms();
        let per_second = world::SENT_MB * 1e3 / each;
        let uncertain_per_second = per_second * rates[index].uncertain_ms() / each;
        let figures = Figures::Rate { per_second, uncertain_per_second, windows: Vec::new() };
        session.enter("network_send", subject, rates[index].len(), figures);
        session.enter_times("network_connect", subject, &waits[index]);
    }
    remove(client, &[public, listed])
}

fn in_mode(mode: NetworkMode) -> NetworkRequest {
    NetworkRequest { mode, ..NetworkRequest::default() }
}

fn create_in(client: &Client, network: &NetworkRequest) -> anyhow::Result<String> {
    create(client, &CreateSandbox { network: Some(network.clone()), ..CreateSandbox::default() })
}

fn seconds(printed: &str) -> anyhow::Result<Duration> {
    let seconds: f64 = printed.trim().parse().map_err(|_| anyhow::anyhow!("not a time: {printed}"))?;
    Ok(Duration::try_from_secs_f64(seconds)?)
}

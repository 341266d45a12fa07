//! What a network costs: making a sandbox with one, the thousandth of them, bytes through it,
//! connections under a policy by name.
//!
//! The world is a namespace behind a link of this machine's, with documentation addresses. Beside a
//! sandbox stands another namespace, linked and masqueraded as plainly as it can be done by hand.

mod world;

use std::time::{Duration, Instant};

use warren_wire::api::{Command, CreateSandbox, Exec, NetworkMode, NetworkRequest};
use warren_wire::client::Client;

use self::world::{NAME, World};

pub(super) use self::world::RESOLVER;

use super::run_true;
use crate::plan::Case;
use crate::report::{Figures, Row, Skipped};
use crate::rounds::{Contender, Lap, race};
use crate::session::Session;
use crate::statistics::Samples;

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
            let reason = format!("{error:#}");
            session.report.skipped.push(Skipped { subject: "network_traffic".to_owned(), reason });
            Ok(())
        }
    }
}

/// Create to first command with and without a network, taking turns.
fn creates(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let lap = |mode: NetworkMode| {
        move || {
            let begun = Instant::now();
            let id = create(client, &NetworkRequest { mode, ..NetworkRequest::default() })?;
            run_true(client, &id)?;
            let time = begun.elapsed();
            client.delete_sandbox(&id)?;
            Ok(Lap { time, settled: None })
        }
    };
    let field = vec![
        Contender::new("network_none", lap(NetworkMode::None)),
        Contender::new("network_public", lap(NetworkMode::Public)),
    ];
    race(session, "network_create", field)
}

/// How many of the first and of the last are compared.
const EDGE: usize = 25;

fn crowd(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let count = session.plan.sizes.crowds.last().copied().unwrap_or(100);
    let public = NetworkRequest { mode: NetworkMode::Public, ..NetworkRequest::default() };
    let (mut times, mut alive) = (Vec::new(), Vec::new());
    for number in 0..count {
        let begun = Instant::now();
        alive.push(create(client, &public)?);
        times.push(begun.elapsed());
        session.go_on()?;
        if number.is_multiple_of(50) {
            session.progress(&format!("network_crowd: {number} of {count} alive"));
        }
    }
    let edge = EDGE.min(count / 2);
    let case = format!("network_create_at_{count}");
    // The very first finds a stock that nobody has used yet, and a cold server.
    let first: Samples = times.iter().skip(5).take(edge).copied().collect();
    let last: Samples = times.iter().rev().take(edge).copied().collect();
    for (subject, samples) in [("create_first", first), ("create_last", last)] {
        session.enter_subject(&case, subject, &samples);
    }
    session.progress("removing the crowd");
    alive.iter().try_for_each(|id| client.delete_sandbox(id).map(drop))?;
    Ok(())
}

fn traffic(session: &mut Session<'_>, client: &Client, world: &World) -> anyhow::Result<()> {
    let public = create(client, &NetworkRequest { mode: NetworkMode::Public, ..NetworkRequest::default() })?;
    let listed = NetworkRequest {
        mode: NetworkMode::Allow,
        allow: vec![NAME.to_owned()],
        ..NetworkRequest::default()
    };
    let listed = create(client, &listed)?;
    let mut rates = [Samples::default(), Samples::default(), Samples::default()];
    let mut waits = [Samples::default(), Samples::default(), Samples::default()];
    for round in 0..session.plan.sizes.windows.max(2) * 2 {
        session.progress(&format!("network_traffic: round {round}"));
        // One after the other, so that all meet the same machine.
        let inside = |id: &str, script: &str| run(client, id, script);
        for (index, told) in
            [world.beside(world::SEND)?, inside(&public, world::SEND)?, inside(&listed, world::SEND)?]
                .into_iter()
                .enumerate()
        {
            rates[index].push(seconds(&told)?);
        }
        for (index, told) in [
            world.beside(world::CONNECT)?,
            inside(&public, world::CONNECT)?,
            inside(&listed, world::CONNECT)?,
        ]
        .into_iter()
        .enumerate()
        {
            waits[index].push(seconds(&told)?);
        }
        session.go_on()?;
    }
    for (index, subject) in ["bare_veth", "network_public", "network_allow"].into_iter().enumerate() {
        let each = rates[index].median_ms() / 1e3;
        let figures = Figures::Rate { per_second: world::SENT_MB / each };
        session.report.rows.push(Row {
            case: "network_send".to_owned(),
            subject: subject.to_owned(),
            n: rates[index].len(),
            figures,
        });
        session.enter_subject("network_connect", subject, &waits[index]);
    }
    for id in [public, listed] {
        client.delete_sandbox(&id)?;
    }
    Ok(())
}

fn create(client: &Client, network: &NetworkRequest) -> anyhow::Result<String> {
    let body = CreateSandbox { network: Some(network.clone()), ..CreateSandbox::default() };
    Ok(client.create_sandbox(&body, None)?.sandbox_id)
}

fn run(client: &Client, id: &str, script: &str) -> anyhow::Result<String> {
    let words = ["python3", "-c", script].map(str::to_owned).to_vec();
    let done = client.exec(id, &Exec { command: Command::Words(words), ..Exec::default() })?;
    if done.exit_code == 0 {
        Ok(done.stdout)
    } else {
        Err(anyhow::anyhow!("a measuring program failed: {}", done.stderr))
    }
}

fn seconds(told: &str) -> anyhow::Result<Duration> {
    let seconds: f64 = told.trim().parse().map_err(|_| anyhow::anyhow!("not a time: {told}"))?;
    Ok(Duration::try_from_secs_f64(seconds)?)
}

impl Session<'_> {
    fn enter_subject(&mut self, case: &str, subject: &str, samples: &Samples) {
        let figures = Figures::Time { median_ms: samples.median_ms(), p99_ms: samples.p99_ms() };
        self.report.rows.push(Row {
            case: case.to_owned(),
            subject: subject.to_owned(),
            n: samples.len(),
            figures,
        });
    }
}

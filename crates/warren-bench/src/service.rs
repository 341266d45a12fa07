//! What a client of the server sees: everything with a key, over HTTP, with the catalog behind it.

mod crowd;
mod docker;
mod e2b;
mod files;
mod network;
mod ports;
mod restart;
mod server;
mod travel;

use std::time::{Duration, Instant};

use warren_wire::api::{Command, CreateSandbox, Exec};
use warren_wire::client::Client;

use self::docker::Docker;
use self::server::Server;
use crate::errand::Work;
use crate::plan::{Case, Subject};
use crate::report::{Figures, Row, Skipped};
use crate::rounds::{Contender, Lap, race};
use crate::session::{MOST_WORKERS, Session};
use crate::statistics::Samples;

/// How many are asked for at once.
const BURST: usize = 100;

const CASES: [Case; 19] = [
    Case::HttpCreate,
    Case::HttpBurst,
    Case::HttpExec,
    Case::HttpCreatesPerSecond,
    Case::HttpIdle,
    Case::HttpRestart,
    Case::HttpFiles,
    Case::Snapshot,
    Case::Rollback,
    Case::Fork,
    Case::Depth,
    Case::Bisect,
    Case::NetworkCreate,
    Case::NetworkCrowd,
    Case::NetworkTraffic,
    Case::PortRequest,
    Case::PortRequestsPerSecond,
    Case::PortIdle,
    Case::E2b,
];

pub(crate) fn measure(session: &mut Session<'_>) -> anyhow::Result<()> {
    if !session.takes(Subject::Warren) || !CASES.iter().any(|case| session.wants(*case)) {
        return Ok(());
    }
    session.progress("starting a server");
    let server = Server::start(&session.plan.warren, &session.ground.file("service"))?;
    let docker = session.docker_engine();
    let measured = all(session, server, docker.as_ref());
    session.progress("");
    measured
}

fn all(session: &mut Session<'_>, server: Server, docker: Option<&Docker>) -> anyhow::Result<()> {
    let client = server.client()?;
    if session.wants(Case::HttpCreate) {
        first_commands(session, &client, docker)?;
    }
    if session.wants(Case::HttpBurst) {
        bursts(session, &client)?;
    }
    if session.wants(Case::HttpExec) {
        execs(session, &client, docker)?;
    }
    if session.wants(Case::HttpCreatesPerSecond) {
        per_second(session, &client)?;
    }
    if session.wants(Case::HttpFiles) {
        files::measure(session, &server, &client)?;
    }
    travel::measure(session, &server, &client)?;
    network::measure(session, &client)?;
    ports::measure(session, &server, &client)?;
    e2b::measure(session, &server)?;
    if session.wants(Case::HttpIdle) {
        crowd::measure(session, &server, &client)?;
    }
    if session.wants(Case::HttpRestart) {
        return restart::measure(session, server);
    }
    Ok(())
}

/// Create, and wait for the first command's end; what removes the sandbox again is not counted.
fn first_commands(session: &mut Session<'_>, client: &Client, docker: Option<&Docker>) -> anyhow::Result<()> {
    let own = Contender::new(Subject::Warren.name(), || {
        let begun = Instant::now();
        let id = create(client)?;
        run_true(client, &id)?;
        let time = begun.elapsed();
        client.delete_sandbox(&id)?;
        Ok(Lap { time, settled: None })
    });
    let mut field = vec![own];
    if let Some(docker) = docker {
        field.push(Contender::new("docker_api", || docker.first_command()));
    }
    race(session, "http_create_to_first_command", field)
}

fn execs(session: &mut Session<'_>, client: &Client, docker: Option<&Docker>) -> anyhow::Result<()> {
    let id = create(client)?;
    let inhabited = docker.and_then(|docker| Some((docker, docker.create().ok()?)));
    let own = Contender::new(Subject::Warren.name(), || {
        let begun = Instant::now();
        run_true(client, &id)?;
        Ok(Lap { time: begun.elapsed(), settled: None })
    });
    let mut field = vec![own];
    if let Some((docker, container)) = &inhabited {
        field.push(Contender::new("docker_api", move || {
            let begun = Instant::now();
            docker.run_true(container)?;
            Ok(Lap { time: begun.elapsed(), settled: None })
        }));
    }
    let raced = race(session, "http_exec_true", field);
    if let Some((docker, container)) = &inhabited {
        docker.remove(container)?;
    }
    client.delete_sandbox(&id)?;
    raced
}

/// All at once, each with a connection of its own; the time is that of the last one's first
/// command.
fn bursts(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let mut samples = Samples::default();
    for round in 0..=session.plan.sizes.windows {
        session.progress(&format!("http_burst_{BURST}: round {round} of {}", session.plan.sizes.windows));
        let (time, ids) = burst(client)?;
        for id in &ids {
            client.delete_sandbox(id)?;
        }
        // The first one warms up.
        if round > 0 {
            samples.push(time);
        }
        session.go_on()?;
    }
    session.enter_times(&format!("http_burst_{BURST}"), &samples);
    Ok(())
}

fn burst(client: &Client) -> anyhow::Result<(Duration, Vec<String>)> {
    let begun = Instant::now();
    let made = std::thread::scope(|scope| {
        let one = || {
            let client = Client::new(client.base(), client.key())?;
            let id = create(&client)?;
            run_true(&client, &id).map(|()| id)
        };
        let hands: Vec<_> = (0..BURST).map(|_| scope.spawn(one)).collect();
        hands
            .into_iter()
            .map(|hand| hand.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<anyhow::Result<Vec<String>>>()
    });
    let time = begun.elapsed();
    made.map(|ids| (time, ids))
}

fn per_second(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let case = format!("http_creates_per_second_{MOST_WORKERS}");
    session.progress(&case);
    let work = Work { workers: MOST_WORKERS, window: session.plan.sizes.window };
    let tally = work.share(&session.stop, |_| {
        let client = Client::new(client.base(), client.key());
        move || -> anyhow::Result<()> {
            let client = client.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
            let id = create(client)?;
            client.delete_sandbox(&id)?;
            Ok(())
        }
    })?;
    session.enter(&case, Subject::Warren.name(), Ok(tally));
    Ok(())
}

fn create(client: &Client) -> anyhow::Result<String> {
    Ok(client.create_sandbox(&CreateSandbox::default(), None)?.sandbox_id)
}

fn run_true(client: &Client, id: &str) -> anyhow::Result<()> {
    let body = Exec { command: Command::Words(vec!["/bin/true".to_owned()]), ..Exec::default() };
    match client.exec(id, &body)?.exit_code {
        0 => Ok(()),
        code => Err(anyhow::anyhow!("true ended with {code}")),
    }
}

impl Session<'_> {
    fn enter_times(&mut self, case: &str, samples: &Samples) {
        let figures = Figures::Time { median_ms: samples.median_ms(), p99_ms: samples.p99_ms() };
        self.enter_row(case, samples.len(), figures);
    }

    fn enter_row(&mut self, case: &str, n: usize, figures: Figures) {
        let subject = Subject::Warren.name().to_owned();
        self.report.rows.push(Row { case: case.to_owned(), subject, n, figures });
    }

    /// Docker's own HTTP interface, if somebody answers there and the benchmark's image is there.
    fn docker_engine(&mut self) -> Option<Docker> {
        if !self.takes(Subject::Docker) {
            return None;
        }
        match Docker::connect(self.ground) {
            Ok(docker) => Some(docker),
            Err(error) => {
                let reason = format!("{error:#}");
                self.report.skipped.push(Skipped { subject: "docker_api".to_owned(), reason });
                None
            }
        }
    }
}

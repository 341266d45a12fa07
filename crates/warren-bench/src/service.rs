//! The server as its clients see it: everything with a key, over HTTP, with the catalog behind it.

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

use clap::ValueEnum as _;
use warren_wire::api::{Command, CreateSandbox, Exec};
use warren_wire::client::Client;

use self::docker::Docker;
use self::server::Server;
use crate::errand::{Work, joined};
use crate::plan::{Case, MOST_WORKERS, Subject};
use crate::rounds::{Contender, race};
use crate::session::Session;
use crate::statistics::{Lap, Samples};

/// The subject of most cases.
const OWN: &str = "warren";

/// The number of sandboxes that are asked for at once.
const BURST: usize = 100;

pub(crate) fn measure(session: &mut Session<'_>) -> anyhow::Result<()> {
    if !session.takes(Subject::Warren)
        || !Case::value_variants().iter().any(|case| *case >= Case::HttpCreate && session.wants(*case))
    {
        return Ok(());
    }
    session.progress("starting a server");
    let server = Server::start(&session.plan.warren, &session.ground.file("service"))?;
    let docker = docker_engine(session);
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

/// Creates a sandbox and waits for the first command's end; its removal is not counted.
fn first_commands(session: &mut Session<'_>, client: &Client, docker: Option<&Docker>) -> anyhow::Result<()> {
    let own = Contender::new(OWN, || {
        let begun = Instant::now();
        let id = create_plain(client)?;
        run_true(client, &id)?;
        let time = begun.elapsed();
        client.delete_sandbox(&id)?;
        Ok(Lap::of(time))
    });
    let mut field = vec![own];
    if let Some(docker) = docker {
        field.push(Contender::new("docker_api", || docker.first_command()));
    }
    race(session, "http_create_to_first_command", field)
}

fn execs(session: &mut Session<'_>, client: &Client, docker: Option<&Docker>) -> anyhow::Result<()> {
    let id = create_plain(client)?;
    let live = docker.and_then(|docker| Some((docker, docker.create().ok()?)));
    let own = Contender::new(OWN, || {
        let begun = Instant::now();
        run_true(client, &id)?;
        Ok(Lap::of(begun.elapsed()))
    });
    let mut field = vec![own];
    if let Some((docker, container)) = &live {
        field.push(Contender::new("docker_api", move || {
            let begun = Instant::now();
            docker.run_true(container)?;
            Ok(Lap::of(begun.elapsed()))
        }));
    }
    let raced = race(session, "http_exec_true", field);
    if let Some((docker, container)) = &live {
        docker.remove(container)?;
    }
    client.delete_sandbox(&id)?;
    raced
}

/// Makes many at once, each over a connection of its own, until the last has run its first command.
fn bursts(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let mut samples = Samples::default();
    for round in 0..=session.plan.sizes.windows {
        session.progress(&format!("http_burst_{BURST}: round {round} of {}", session.plan.sizes.windows));
        let (time, ids) = burst(client)?;
        remove(client, &ids)?;
        // The first one warms up.
        if round > 0 {
            samples.push(time);
        }
        session.go_on()?;
    }
    session.enter_times(&format!("http_burst_{BURST}"), OWN, &samples);
    Ok(())
}

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

fn per_second(session: &mut Session<'_>, client: &Client) -> anyhow::Result<()> {
    let case = format!("http_creates_per_second_{MOST_WORKERS}");
    session.progress(&case);
    let work = Work { workers: MOST_WORKERS, window: session.plan.sizes.window };
    let tally = work.share(&session.stop, |_| {
        let client = Client::new(client.base(), client.key());
        move || -> anyhow::Result<()> {
            let client = client.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
            let id = create_plain(client)?;
            client.delete_sandbox(&id)?;
            Ok(())
        }
    })?;
    session.enter_rate(&case, OWN, &tally);
    Ok(())
}

/// Makes sandboxes until there are as many as wanted, and answers their ids.
fn populate(
    session: &Session<'_>,
    count: usize,
    mut create: impl FnMut() -> anyhow::Result<String>,
) -> anyhow::Result<Vec<String>> {
    let mut alive = Vec::new();
    while alive.len() < count {
        alive.push(create()?);
        session.go_on()?;
        if alive.len().is_multiple_of(50) {
            session.progress(&format!("{} of {count} alive", alive.len()));
        }
    }
    Ok(alive)
}

fn remove(client: &Client, ids: &[String]) -> anyhow::Result<()> {
    ids.iter().try_for_each(|id| Ok(client.delete_sandbox(id).map(drop)?))
}

fn create(client: &Client, body: &CreateSandbox) -> anyhow::Result<String> {
    Ok(client.create_sandbox(body, None)?.sandbox_id)
}

fn create_plain(client: &Client) -> anyhow::Result<String> {
    create(client, &CreateSandbox::default())
}

fn run_true(client: &Client, id: &str) -> anyhow::Result<()> {
    exec(client, id, ["/bin/true"]).map(drop)
}

/// Runs a command that must succeed, and answers its output.
fn exec<const N: usize>(client: &Client, id: &str, words: [&str; N]) -> anyhow::Result<String> {
    let command = Command::Words(words.map(str::to_owned).to_vec());
    let done = client.exec(id, &Exec { command, ..Exec::default() })?;
    anyhow::ensure!(
        done.exit_code == 0,
        "`{}` ended with {}: {}",
        words.join(" "),
        done.exit_code,
        done.stderr
    );
    Ok(done.stdout)
}

/// Docker's own HTTP interface, if somebody answers there and the benchmark's image is there.
fn docker_engine(session: &mut Session<'_>) -> Option<Docker> {
    if !session.takes(Subject::Docker) {
        return None;
    }
    let docker = Docker::connect(session.ground);
    docker.inspect_err(|error| session.skip("docker_api", format!("{error:#}"))).ok()
}

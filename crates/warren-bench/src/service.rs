//! The server as its clients see it: everything with a key, over HTTP, with the catalog behind it.

mod burst;
mod claim;
mod crowd;
mod docker;
mod e2b;
mod files;
mod first;
mod growth;
mod installs;
mod network;
mod ports;
mod restart;
mod server;
mod travel;
mod walls;

use std::time::Instant;

use clap::ValueEnum as _;
use warren_wire::api::{Command, CreateSandbox, Exec};
use warren_wire::client::Client;

use self::docker::Docker;
use self::server::Server;
use crate::errand::Work;
use crate::peers::TRUE;
use crate::plan::{Case, MOST_WORKERS, Subject};
use crate::rounds::{Contender, race};
use crate::session::Session;
use crate::statistics::Lap;

pub(crate) use self::walls::{memory, moves};

/// The subject of most cases.
const OWN: &str = "warren";

/// The engine in this process, beside the server.
const ENGINE: &str = "engine";

const WITH_OWN_SERVER: [Case; 4] = [Case::FirstCreate, Case::HttpClaim, Case::Growth, Case::Installs];

pub(crate) fn measure(session: &mut Session<'_>) -> anyhow::Result<()> {
    if !session.takes(Subject::Warren) {
        return Ok(());
    }
    if session.wants(Case::FirstCreate) {
        let measured = first::measure(session);
        session.attempt("first_create", measured)?;
    }
    if session.wants(Case::HttpClaim) {
        let measured = claim::measure(session);
        session.attempt("http_claim", measured)?;
    }
    if session.wants(Case::Growth) {
        let measured = growth::measure(session);
        session.attempt("growth", measured)?;
    }
    let shared = |case: &Case| *case >= Case::FirstCreate && !WITH_OWN_SERVER.contains(case);
    if Case::value_variants().iter().any(|case| shared(case) && session.wants(*case)) {
        session.progress("starting a server");
        let server = Server::start(&session.plan.warren, &session.ground.file("service"), &[])?;
        let docker = docker_engine(session);
        all(session, server, docker.as_ref())?;
    }
    // Last, since making files is slow on some disks for minutes after so many were removed.
    if session.wants(Case::Installs) {
        let measured = installs::measure(session);
        session.attempt("installs", measured)?;
    }
    session.progress("");
    Ok(())
}

fn all(session: &mut Session<'_>, server: Server, docker: Option<&Docker>) -> anyhow::Result<()> {
    let client = server.client()?;
    if session.wants(Case::HttpCreate) {
        let measured = first_commands(session, &server, &client, docker);
        session.attempt("http_create", measured)?;
    }
    if session.wants(Case::HttpBurst) {
        let measured = burst::measure(session, &server, &client);
        session.attempt("http_burst", measured)?;
    }
    if session.wants(Case::HttpExec) {
        let measured = execs(session, &client, docker);
        session.attempt("http_exec", measured)?;
    }
    if session.wants(Case::HttpCreatesPerSecond) {
        let measured = per_second(session, &client);
        session.attempt("http_creates_per_second", measured)?;
    }
    if session.wants(Case::HttpFiles) {
        let measured = files::measure(session, &server, &client);
        session.attempt("http_files", measured)?;
    }
    travel::measure(session, &server, &client)?;
    let measured = network::measure(session, &client);
    session.attempt("network", measured)?;
    let measured = ports::measure(session, &server, &client);
    session.attempt("ports", measured)?;
    let measured = e2b::measure(session, &server);
    session.attempt("e2b", measured)?;
    if session.wants(Case::HttpIdle) {
        let measured = crowd::measure(session, &server, &client);
        session.attempt("http_idle", measured)?;
    }
    if session.wants(Case::HttpRestart) {
        let measured = restart::measure(session, server);
        session.attempt("http_restart", measured)?;
    }
    Ok(())
}

/// Creates a sandbox and waits for the first command's end; its removal is not counted.
fn first_commands(
    session: &mut Session<'_>,
    server: &Server,
    client: &Client,
    docker: Option<&Docker>,
) -> anyhow::Result<()> {
    let mut field = yardsticks(session);
    field.push(Contender::new(OWN, || create_lap(server, client)));
    if let Some(docker) = docker {
        field.push(Contender::new("docker_api", || docker.first_command()));
    }
    race(session, "http_create_to_first_command", field)
}

/// The engine's create, run, destroy and bubblewrap's, which others are compared with.
fn yardsticks<'a>(session: &Session<'a>) -> Vec<Contender<'a>> {
    let engine = session.engine;
    let engine = Contender::new(ENGINE, move || Ok(Lap::of(engine.cold_run(&TRUE)?.time)));
    let bubblewrap = session
        .peer(Subject::Bwrap)
        .map(|peer| Contender::new(Subject::Bwrap.name(), move || Ok(Lap::of(peer.time(&peer.run_true)?))));
    [engine].into_iter().chain(bubblewrap).collect()
}

fn create_lap(server: &Server, client: &Client) -> anyhow::Result<Lap> {
    let begun = Instant::now();
    let id = create_plain(client)?;
    run_true(client, &id)?;
    let time = begun.elapsed();
    client.delete_sandbox(&id)?;
    server.settle();
    Ok(Lap::of(time))
}

fn exec_lap(client: &Client, id: &str) -> anyhow::Result<Lap> {
    let begun = Instant::now();
    run_true(client, id)?;
    Ok(Lap::of(begun.elapsed()))
}

fn execs(session: &mut Session<'_>, client: &Client, docker: Option<&Docker>) -> anyhow::Result<()> {
    let (id, engine) = (create_plain(client)?, session.engine);
    let beside = engine.create()?;
    let live = docker.and_then(|docker| Some((docker, docker.create().ok()?)));
    let mut field = vec![
        Contender::new(OWN, || exec_lap(client, &id)),
        Contender::new(ENGINE, || engine.exec_in(&beside, &TRUE)),
    ];
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
    engine.destroy(&beside)?;
    client.delete_sandbox(&id)?;
    raced
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
    session.enter_rate(&case, OWN, &[tally]);
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

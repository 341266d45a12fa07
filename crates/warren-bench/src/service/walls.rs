use std::time::Instant;

use anyhow::Context as _;
use warren_wire::api::{Command, CreateSandbox, MoveSandbox, StartProcess, TakeSnapshot};
use warren_wire::client::Client;

use super::server::Server;
use super::{create, create_plain, exec, run_true};
use crate::peers::Checkpoint;
use crate::rounds::{Contender, race};
use crate::session::Session;
use crate::statistics::Lap;

/// Moves of a sandbox between native and each of these walls, until it has answered there, beside a
/// stop and a start behind either.
pub(crate) fn moves(session: &mut Session<'_>, walls: &[&'static str]) -> anyhow::Result<()> {
    session.progress("starting a server with several walls");
    for wall in walls {
        let enabled = format!("backends.enabled=[native, {wall}]");
        let folder = session.ground.file(&format!("moves-{wall}"));
        let server = Server::start(&session.plan.warren, &folder, &["--set", &enabled])?;
        let client = server.client()?;
        let (moved, native) = (create_plain(&client)?, create_plain(&client)?);
        let behind = create_plain(&client)?;
        go(&client, &behind, wall)?;
        let field = vec![
            Contender::new("move", || {
                let there = client.sandbox(&moved)?.backend == *wall;
                timed(|| go(&client, &moved, if there { "native" } else { wall }))
            }),
            Contender::new("native_stop_start", || timed(|| again(&client, &native))),
            Contender::new("stop_start", || timed(|| again(&client, &behind))),
        ];
        race(session, &format!("walls_move_{wall}"), field)?;
    }
    Ok(())
}

/// Fills 50 MB of memory with what cannot be compressed.
const HOLD: [&str; 3] = [
    "/usr/bin/python3",
    "-c",
    "import os, time\nheld = os.urandom(50 << 20)\nopen('/tmp/ready', 'w').close()\ntime.sleep(1e6)",
];

/// A snapshot with processes that hold 50 MB, after which they go on, beside gVisor's checkpoint of
/// the same program, with which it ends, and a restore of that.
pub(crate) fn memory(session: &mut Session<'_>) -> anyhow::Result<()> {
    session.progress("starting a server for snapshots with processes");
    let folder = session.ground.file("memory");
    let server = Server::start(&session.plan.warren, &folder, &["--set", "backends.enabled=[runsc]"])?;
    let client = server.client()?;
    let id = create(&client, &CreateSandbox::default())?;
    let command = Command::Words(HOLD.map(str::to_owned).to_vec());
    client.start_process(&id, &StartProcess { command, ..StartProcess::default() })?;
    while exec(&client, &id, ["/bin/sh", "-c", "test -e /tmp/ready"]).is_err() {
        session.go_on()?;
    }
    let bare = Checkpoint::of(session.ground, &HOLD)?;
    let order = TakeSnapshot { memory: true, ..TakeSnapshot::default() };
    let field = vec![
        Contender::new("warren", || {
            let begun = Instant::now();
            let taken = client.take_snapshot(&id, &order)?;
            let lap = Lap::of(begun.elapsed());
            client.delete_snapshot(&taken.snapshot_id)?;
            Ok(lap)
        }),
        Contender::new("bare", || {
            let (taken, restored) = bare.time()?;
            Ok(Lap::of(taken + restored))
        }),
        Contender::new("checkpoint", || Ok(Lap::of(bare.time()?.0))),
    ];
    race(session, "walls_memory_runsc", field)
}

fn timed(deed: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Lap> {
    let begun = Instant::now();
    deed()?;
    Ok(Lap::of(begun.elapsed()))
}

fn go(client: &Client, id: &str, wall: &str) -> anyhow::Result<()> {
    let body = MoveSandbox { backend: Some(wall.to_owned()), ..MoveSandbox::default() };
    client.move_sandbox(id, &body).with_context(|| format!("move to {wall}"))?;
    run_true(client, id)
}

fn again(client: &Client, id: &str) -> anyhow::Result<()> {
    client.stop(id)?;
    client.resume(id)?;
    run_true(client, id)
}

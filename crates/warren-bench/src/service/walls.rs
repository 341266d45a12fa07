use std::time::Instant;

use anyhow::Context as _;
use warren_wire::api::MoveSandbox;
use warren_wire::client::Client;

use super::server::Server;
use super::{create_plain, run_true};
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

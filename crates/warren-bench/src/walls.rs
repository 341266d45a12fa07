//! Our OCI backends against the bare runtimes, and against native.
//!
//! The bare runtime runs `true` on the same template from start to end; of ours the time until the
//! agent inside has answered is taken. The bare one has a read-only root and, as in its default
//! configuration, no user namespace, no filter and no agent; ours has all of them, id-mapped layers
//! and a writable one.

use crate::engine::Engine;
use crate::peers::{LiveSandbox, TRUE};
use crate::plan::Subject;
use crate::rounds::{Contender, race};
use crate::service;
use crate::session::Session;
use crate::statistics::Lap;

/// The runtimes, by the names of their backends.
pub(crate) const RUNTIMES: [Subject; 3] = [Subject::Crun, Subject::Runc, Subject::Runsc];

/// Programs that a shell inside starts in one lap, so that the shell itself hardly counts.
const STARTED: u32 = 50;
const START_MANY: &str = "i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i+1)); done";

pub(crate) fn measure(session: &mut Session<'_>, live: &LiveSandbox<'_>) -> anyhow::Result<()> {
    let mut walls = Vec::new();
    for runtime in RUNTIMES {
        if !session.takes(runtime) {
            continue;
        }
        match Engine::behind(runtime.name(), &session.plan.data_dir) {
            Ok(engine) => walls.push((runtime, engine)),
            Err(error) => session.skip(runtime.name(), format!("{error:#}")),
        }
    }
    for (runtime, engine) in &walls {
        let bare = session.peer(*runtime);
        let mut field = vec![Contender::new("warren", || engine.answer())];
        field.extend(
            bare.as_ref().map(|peer| Contender::new("bare", || Ok(Lap::of(peer.time(&peer.run_true)?)))),
        );
        race(session, &format!("walls_answer_{}", runtime.name()), field)?;
    }
    on_docker(session)?;
    execs(session, live, &walls)?;
    service::moves(session, &walls.iter().map(|(runtime, _)| runtime.name()).collect::<Vec<_>>())?;
    if walls.iter().any(|(runtime, _)| *runtime == Subject::Runsc) {
        service::memory(session)?;
    }
    Ok(())
}

/// As of the runtimes, beside `docker run` of `true` on the same image.
fn on_docker(session: &mut Session<'_>) -> anyhow::Result<()> {
    let Some(bare) = session.peer(Subject::Docker) else { return Ok(()) };
    let engine = Engine::on_image(&session.ground.prefix, &session.plan.data_dir)?;
    // What the backend makes with its first sandbox and removes with its last is there all along.
    let kept = engine.create()?;
    let field = vec![
        Contender::new("warren", || engine.answer()),
        Contender::new("bare", || Ok(Lap::of(bare.time(&bare.run_true)?))),
    ];
    let measured = race(session, "walls_answer_docker", field);
    engine.destroy(&kept)?;
    engine.settle()?;
    measured
}

fn execs(
    session: &mut Session<'_>,
    live: &LiveSandbox<'_>,
    walls: &[(Subject, Engine)],
) -> anyhow::Result<()> {
    let native = session.engine;
    let mut made = Vec::new();
    for (runtime, engine) in walls {
        made.push((runtime.name(), engine, engine.create()?));
    }
    let all = || {
        let walls = made.iter().map(|(name, engine, id)| (*name, *engine, id));
        [("native", native, &live.id)].into_iter().chain(walls)
    };
    let field = all().map(|(name, engine, id)| Contender::new(name, move || engine.exec_in(id, &TRUE)));
    let execs = race(session, "walls_exec_true", field.collect());
    let started = all().map(|(name, engine, id)| {
        Contender::new(name, move || {
            let lap = engine.exec_in(id, &["/bin/sh", "-c", START_MANY])?;
            Ok(Lap::of(lap.time / STARTED))
        })
    });
    let started = execs.and_then(|()| race(session, "walls_start_inside", started.collect()));
    for (_, engine, id) in &made {
        engine.destroy(id)?;
        engine.settle()?;
    }
    started
}

//! A start: what the catalog says should be, joined with what the machine says is.
//!
//! | record        | found alive        | found dead              | not found |
//! |---------------|--------------------|-------------------------|-----------|
//! | ready, paused | adopted            | stopped, files kept     | stopped, nothing kept (1) |
//! | creating      | undone: failed     | undone: failed          | failed    |
//! | creating, again (a resume) | undone: stopped, files kept | the same | the same |
//! | stopping      | finished           | finished                | finished  |
//! | stopped, files kept | halted       | left alone              | left alone |
//! | none, or over | removed            | removed                 |           |
//! | none, a spare of a pool | removed  | removed                 |           |
//!
//! (1) If that is so for most of them, somebody is asked first.
//!
//! One that is found frozen against its record was being copied, sealed or paused, and goes on. A
//! layer that a sandbox stands on and its record does not know of is written down; snapshots that
//! were not on disk when the machine stopped are marked as damaged.
//!
//! The links of those that are adopted are taken over first, and all others are taken away. One
//! whose link cannot be taken over runs on without it.
//!
//! A backend that does not say what it has is away: what is recorded there is left as it is, and is
//! joined when the backend answers. If none of them answers, the engine does not start. What
//! another backend than the recorded one has is what a move left behind, which the sandbox's driver
//! removes.
//!
//! Only what carries this node's mark is removed: sandboxes that others made on the same machine
//! are left alone. Records of what other nodes hold are not looked at. When most of what should be
//! there is not, or most of what is there is unknown, a wrong mount or an old backup is likelier
//! than the truth. Then nothing is removed, and the engine only answers questions until somebody
//! has looked.

mod layers;
mod links;
mod plan;

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use warren_core::catalog::CatalogError;
use warren_core::{DeathCause, Found, IsolationError, IsolationErrorKind, SandboxId, SandboxRecord, Status};

use self::plan::{Decision, Plan};
use crate::cell::Task;
use crate::certificate::Ending;
use crate::driver::{Adopted, Driver, First, Remains};
use crate::engine::{OpenError, closed};
use crate::error::sentence;
use crate::images::Leftovers;
use crate::ports::{Backend, blocking};
use crate::{Engine, EngineError, Mode};

/// Orphans that are removed at the same time.
const REMOVALS_AT_ONCE: usize = 4;
/// How long a backend may take to say which sandboxes it has.
const LIST_PATIENCE: Duration = Duration::from_secs(60);

/// Adopts what runs, and sees to the rest in the background.
pub(crate) async fn at_start(engine: &Engine) -> Result<(), OpenError> {
    let all = &engine.shared.backends;
    let world = World::look(engine, all).await.map_err(|error| match error {
        LookError::Catalog(error) => OpenError::Catalog(error),
        LookError::Backend(error) => OpenError::Backend(error),
    })?;
    let plan = world.plan(engine);
    if !plan.unheard.is_empty() {
        let (sandboxes, backends) = (plan.unheard.len(), world.unheard_backends());
        tracing::error!(sandboxes, ?backends, "sandboxes of backends that are away are left as they are");
    }
    let doubt = plan.doubt();
    if let Some(reason) = &doubt {
        tracing::error!(reason, "the engine only answers questions until somebody has looked");
        engine.set_mode(Mode::ReadOnly { reason: reason.clone() });
    }
    let leftovers = match &doubt {
        None => engine.find_leftovers(&world.records).await?,
        Some(_) => Leftovers::default(),
    };
    let (shared, doubtful) = (engine.inner(), doubt.is_some());
    // Before anything runs that could be in the way of it.
    let (world, plan) = blocking(move || {
        let links = links::take_over(&shared, &plan);
        links::take_away_others(&shared, &links, &plan, doubtful);
        (World { links, ..world }, plan)
    })
    .await;
    drop(carry_out(engine, world, plan, leftovers, !doubtful));
    Ok(())
}

/// Somebody has looked: the world is taken as it is now.
pub(crate) async fn accepting_losses(engine: &Engine) -> Result<(), EngineError> {
    let world = World::look(engine, &engine.shared.backends).await?;
    let plan = world.plan(engine);
    tracing::warn!(missing = plan.missing, orphans = plan.orphans.len(), "losses were accepted");
    let leftovers = engine.find_leftovers(&world.records).await?;
    engine.set_mode(Mode::Normal);
    let shared = engine.inner();
    let (world, plan) =
        blocking(move || (World { links: links::take_over(&shared, &plan), ..world }, plan)).await;
    // The next question will be what was lost.
    drop(carry_out(engine, world, plan, leftovers, true).await);
    Ok(())
}

/// Asks backends that are away again and again, and takes over what they have when they answer.
pub(crate) async fn keep_asking(engine: Engine) {
    let mut closing = engine.shared.closing.subscribe();
    loop {
        tokio::select! {
            biased;
            () = closed(&mut closing) => return,
            () = tokio::time::sleep(engine.shared.settings.away_retry) => {}
        }
        let away: Vec<_> = engine.shared.backends.iter().filter(|backend| backend.away().is_some()).collect();
        for backend in away {
            if engine.may_change().is_ok()
                && let Err(error) = came_back(&engine, backend).await
            {
                tracing::debug!(
                    backend = backend.name(),
                    error = sentence(&error),
                    "a backend is still away"
                );
            }
        }
    }
}

/// Joins what a backend that was away has with what is recorded there.
async fn came_back(engine: &Engine, backend: &Arc<Backend>) -> Result<(), EngineError> {
    let world = World::look(engine, std::slice::from_ref(backend)).await?;
    let plan = world.plan(engine);
    if let Some(reason) = plan.doubt() {
        backend.set_away(Some(reason.clone()));
        return Err(EngineError::ReadOnly(reason));
    }
    let shared = engine.inner();
    let (world, plan) =
        blocking(move || (World { links: links::take_over(&shared, &plan), ..world }, plan)).await;
    drop(carry_out(engine, world, plan, Leftovers::default(), true).await);
    Ok(())
}

/// The state of the catalog and of the machine.
struct World {
    records: Vec<SandboxRecord>,
    /// By id, with the backend that found it.
    found: HashMap<SandboxId, (Arc<Backend>, Found)>,
    /// For those that are alive: tells their end.
    watches: HashMap<SandboxId, OwnedFd>,
    /// For those that are to be adopted: what became of their links.
    links: HashMap<SandboxId, Adopted>,
    /// The backends that said what they have.
    heard: HashSet<&'static str>,
}

enum LookError {
    Catalog(CatalogError),
    Backend(IsolationError),
}

impl From<LookError> for EngineError {
    fn from(error: LookError) -> Self {
        match error {
            LookError::Catalog(error) => Self::Catalog(error),
            LookError::Backend(error) => Self::Backend(error),
        }
    }
}

impl World {
    /// Asks these backends, and reads the records. One backend that does not say what it has is
    /// away; it is an error if none does.
    async fn look(engine: &Engine, backends: &[Arc<Backend>]) -> Result<Self, LookError> {
        let engine = engine.inner();
        let answers = join_all(backends.iter().map(list)).await;
        let (mut listed, mut failed) = (Vec::new(), None);
        for (backend, answer) in backends.iter().zip(answers) {
            match answer {
                Ok(found) => {
                    backend.set_away(None);
                    listed.push((Arc::clone(backend), found));
                }
                Err(error) => {
                    backend.set_away(Some(sentence(&error)));
                    failed = Some(error);
                }
            }
        }
        if let (Some(error), true) = (failed, listed.is_empty()) {
            return Err(LookError::Backend(error));
        }
        blocking(move || {
            let parts = &engine.shared.parts;
            layers::check_durability(&engine).map_err(LookError::Catalog)?;
            let mut records =
                parts.catalog.unfinished_sandboxes(engine.node()).map_err(LookError::Catalog)?;
            let heard = listed.iter().map(|(backend, _)| backend.name()).collect();
            let at = records.iter().map(|record| (&record.id, record.backend.as_str()));
            let at: HashMap<&SandboxId, &str> = at.collect();
            let mut found = HashMap::new();
            for (backend, sandboxes) in listed {
                let here = |sandbox: &Found| at.get(&sandbox.id).is_none_or(|at| *at == backend.name());
                for sandbox in sandboxes.into_iter().filter(here) {
                    found.insert(sandbox.id.clone(), (Arc::clone(&backend), sandbox));
                }
            }
            let seen = found.values().map(|(_, found)| found);
            let known = |id: &SandboxId| engine.knows(id);
            layers::correct_stacks(&engine, &mut records, seen, known).map_err(LookError::Catalog)?;
            let watches = watch_all(&records, &found);
            Ok(Self { records, found, watches, links: HashMap::new(), heard })
        })
        .await
    }

    fn plan(&self, engine: &Engine) -> Plan {
        let found: HashMap<&SandboxId, &Found> =
            self.found.iter().map(|(id, (_, found))| (id, found)).collect();
        let known = |id: &SandboxId| engine.knows(id);
        let clock = engine.shared.parts.clock.as_ref();
        let heard = |name: &str| self.heard.contains(name);
        Plan::make(&self.records, &found, known, heard, engine.node(), clock.boot_id())
    }

    fn unheard_backends(&self) -> Vec<&str> {
        let names = self.records.iter().map(|record| record.backend.as_str());
        let unheard: HashSet<&str> = names.filter(|name| !self.heard.contains(name)).collect();
        unheard.into_iter().collect()
    }
}

impl Engine {
    /// True for a sandbox that has a driver, and for a machine that was made ahead of time.
    fn knows(&self, id: &SandboxId) -> bool {
        self.shared.registry.holds(id) || self.shared.pools.holds(id)
    }
}

impl World {
    /// The first task of a sandbox's driver; `None` if it is not to have a driver now.
    fn first(&mut self, id: &SandboxId, decision: Decision, all: bool) -> Option<First> {
        let link = self.links.remove(id).unwrap_or(Adopted::NoLink);
        match (decision, self.watches.remove(id)) {
            (Decision::Adopt { frozen }, Some(watch)) => Some(First::Adopt { watch, frozen, link }),
            // It ended after it was listed.
            (Decision::Adopt { .. }, None) => all.then_some(First::Settle(Remains::Dead)),
            (Decision::Settle(remains), _) => all.then_some(First::Settle(remains)),
        }
    }

    fn backend(&self, engine: &Engine, record: &SandboxRecord) -> Option<Arc<Backend>> {
        if let Some((backend, _)) = self.found.get(&record.id) {
            return Some(Arc::clone(backend));
        }
        engine.backend_of(record).map_err(|error| {
            engine.fault();
            tracing::error!(sandbox.id = %record.id, error = sentence(&error), "a sandbox is left as it is");
        })
        .ok()
    }
}

/// The sandboxes of a backend. One that does not answer in time is away as one that fails is: it
/// must not hold the start up for ever.
async fn list(backend: &Arc<Backend>) -> Result<Vec<Found>, IsolationError> {
    let (tell, told) = oneshot::channel();
    let (port, name) = (Arc::clone(&backend.port), backend.name());
    // Not one of the runtime's threads, which a runtime waits for when it ends.
    std::thread::spawn(move || drop(tell.send(port.list())));
    match timeout(LIST_PATIENCE, told).await {
        Ok(Ok(listed)) => listed,
        Ok(Err(_)) | Err(_) => {
            let action = format!("hear within {} s which sandboxes `{name}` has", LIST_PATIENCE.as_secs());
            Err(IsolationError::new(IsolationErrorKind::Host, action))
        }
    }
}

fn watch_all(
    records: &[SandboxRecord],
    found: &HashMap<SandboxId, (Arc<Backend>, Found)>,
) -> HashMap<SandboxId, OwnedFd> {
    let alive = records.iter().filter_map(|record| found.get(&record.id)).filter(|(_, found)| found.alive);
    alive
        .filter_map(|(backend, found)| match backend.port.watch(&found.id) {
            Ok(watch) => Some((found.id.clone(), watch)),
            Err(error) => {
                tracing::warn!(sandbox.id = %found.id, error = sentence(&error), "cannot watch a sandbox that was found");
                None
            }
        })
        .collect()
}

/// Starts drivers for all that is to be done; with `all` false only for what needs no change. The
/// task that is answered ends when all of it is done.
fn carry_out(
    engine: &Engine,
    mut world: World,
    plan: Plan,
    leftovers: Leftovers,
    all: bool,
) -> JoinHandle<()> {
    for record in &world.records {
        engine.shared.registry.note_files(record);
    }
    let mut settling = Vec::new();
    for (record, decision) in plan.steps {
        let Some(first) = world.first(&record.id, decision, all) else { continue };
        let Some(backend) = world.backend(engine, &record) else { continue };
        let as_recorded = match first {
            First::Adopt { frozen, ref link, .. } => {
                let frozen_as_recorded = frozen == (record.status == Status::Paused);
                frozen_as_recorded && link.is_as_recorded(&record) && record.left.is_none()
            }
            First::Letter | First::Make(_) | First::Settle(_) => false,
        };
        let cell = Driver::start(engine, record, backend, None, first);
        settling.extend(cell.filter(|_| !as_recorded));
    }
    let orphans = if all { [plan.orphans, plan.spares].concat() } else { Vec::new() };
    let orphans = orphans.into_iter().filter_map(|id| Some((world.found.remove(&id)?.0, id))).collect();
    let engine = engine.inner();
    tokio::spawn(async move {
        remove_orphans(&engine, orphans).await;
        for cell in settling {
            // It is answered, or its driver has left, once that is done.
            drop(cell.ask(Task::Look(None)).await);
        }
        if all {
            stop_below_least_tier(&engine).await;
            engine.clear_leftovers(leftovers).await;
            // Sessions that were not told of their sandbox's end, and leases that are still held.
            engine.sweep_sessions().await;
            engine.collect_layers().await;
        }
        engine.shared.reconciled.send_replace(true);
    })
}

/// Stops what runs behind a wall that its owner may no longer have. Its files are kept, and a move
/// gives it another wall.
async fn stop_below_least_tier(engine: &Engine) {
    for cell in engine.shared.registry.all() {
        let record = cell.record();
        if !record.is_live() || engine.check_wall(&record, &cell.backend).is_ok() {
            continue;
        }
        let ending = Ending {
            cause: DeathCause::Killed { by: "the setting policy.minimum_tier".to_owned() },
            detail: "its wall is weaker than its owner's sandboxes may have: move it".to_owned(),
            files_kept: true,
        };
        if let Some(Err(error)) = cell.ask(Task::Stop(ending)).await {
            engine.fault();
            tracing::error!(sandbox.id = %cell.id, error = sentence(&error), "a sandbox still runs behind a wall that is too weak");
        }
    }
}

async fn remove_orphans(engine: &Engine, orphans: Vec<(Arc<Backend>, SandboxId)>) {
    stream::iter(orphans)
        .for_each_concurrent(REMOVALS_AT_ONCE, |(backend, id)| async move {
            tracing::warn!(sandbox.id = %id, "a sandbox that nobody knows is removed");
            let (which, shared) = (id.clone(), engine.inner());
            let port = Arc::clone(&backend.port);
            let removed = backend.ask(move || {
                let destroyed = port.destroy(&which);
                if let Err(error) = shared.remove_link(&which) {
                    shared.fault();
                    tracing::error!(sandbox.id = %which, error = sentence(&error), "the link of a sandbox is still there");
                }
                destroyed
            });
            match removed.await {
                Err(error) if error.kind != IsolationErrorKind::NotFound => {
                    engine.fault();
                    tracing::error!(sandbox.id = %id, error = sentence(&error), "cannot remove a sandbox that nobody knows");
                }
                Ok(()) | Err(_) => {}
            }
        })
        .await;
}

//! A build: its steps are done in a sandbox of its own, and a snapshot of that is the template.
//!
//! ```text
//! announced ──► waits for room ──► the base, or the state after the last step that was done before ──► steps ──► start command ──► snapshot ──► book
//! ```
//!
//! After each step the state is kept, so that a later build that begins with the same steps goes on from there. Nobody waits for a
//! build: it goes on when its client is gone, and ends with the server. What it leaves is cleared away by the next one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use warren_core::{Automatic, ByteSize, Cpus, Limits, OnExpiry, SandboxId, SandboxSpec, SnapshotId};
use warren_e2b::rest::templates::{LogLevel, StartBuild};
use warren_engine::{Access, Acquire, NewSandbox, StoppedFiles, TakeSnapshot};

use super::base::{self, Base};
use super::book::{Context, Image, Layer, Outcome, missing};
use super::command::CommandFailure;
use super::jobs::Job;
use super::start::{Place, Start};
use super::steps::{self, Numbered};
use super::store::{BUILD_LABEL, BUILD_NOTE, Books, discard};
use super::work::Work;
use crate::auth::Caller;
use crate::e2b::control::E2bError;
use crate::error::chain;
use crate::state::AppState;

/// The longest that a build may take once it has begun.
const LONGEST: Duration = Duration::from_secs(3600);

/// What its sandbox may take longer to be cleared away.
const SPARE_S: u64 = 120;

/// A build that is to be made.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) caller: warren_core::Caller,
    pub(super) template: String,
    pub(super) build: String,
    pub(super) base: Base,
    pub(super) steps: Vec<Numbered>,
    pub(super) start: Option<Start>,
    /// Nothing of earlier builds is used.
    pub(super) force: bool,
    pub(super) cpus: Option<Cpus>,
    pub(super) memory: Option<ByteSize>,
}

/// Why a build failed, and in which step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) step: String,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(step: &str, message: impl Into<String>) -> Self {
        Self { step: step.to_owned(), message: message.into() }
    }

    pub(super) fn of(step: &str) -> impl Fn(CommandFailure) -> Self {
        move |failure| Self::new(step, failure.0)
    }
}

/// Begins with a build that was announced.
pub(super) async fn begin(
    state: &AppState,
    caller: &Caller,
    (name, build): (&str, &str),
    body: StartBuild,
) -> Result<(), E2bError> {
    let base = base::find(state, caller, &body).await?;
    let steps = steps::read(body.steps.as_deref().unwrap_or_default(), &base.mark)?;
    let book = Books::of(state, &caller.owner).await?;
    let (template, entry) = book.find(name).ok_or_else(|| missing(name))?;
    let order = Order {
        caller: warren_core::Caller::clone(caller),
        template: template.clone(),
        build: build.to_owned(),
        start: Start::new(body.start_cmd, body.ready_cmd).or_else(|| base.start.clone()),
        base,
        steps,
        force: body.force.unwrap_or_default(),
        cpus: super::resolve::cpus(entry),
        memory: entry.memory_mb.map(ByteSize::mib),
    };
    let job = state.books.jobs.open(&order.caller.owner, build, Arc::clone(&state.clock))?;
    let (id, which) = (order.template.clone(), order.build.clone());
    let begun = Books::change(state, &order.caller.owner, move |book| book.begin(&id, &which)).await;
    if begun.is_err() {
        state.books.jobs.forget(&order.caller.owner, build);
        return begun;
    }
    tokio::spawn(carry_out(state.clone(), order, job));
    Ok(())
}

/// From the wait for room to the word of what became of it.
async fn carry_out(state: AppState, order: Order, job: Arc<Job>) {
    let _room = state.books.jobs.room().await;
    job.begin();
    let (making, log) = (make(state.clone(), order.clone(), Arc::clone(&job)), job);
    // In a task of its own, so that whatever happens to it the build has an end.
    let made = tokio::spawn(making).await.unwrap_or_else(|error| {
        tracing::error!(error = chain(&error), "a build broke off");
        Err(Failure::new("", "the server failed; its log says more"))
    });
    let (outcome, snapshot) = match made {
        Ok(image) => {
            log.log(LogLevel::Info, "finalize", "Build finished");
            let snapshot = image.snapshot.clone();
            (Outcome::Ready(Box::new(image)), Some(snapshot))
        }
        Err(Failure { step, message }) => {
            log.log(LogLevel::Error, &step, &message);
            (Outcome::Failed { message, step }, None)
        }
    };
    let (template, build, now) = (order.template.clone(), order.build.clone(), state.clock.unix_ms());
    let told =
        Books::change(&state, &order.caller.owner, move |book| book.finish(&template, &build, outcome, now));
    if let Err(error) = told.await {
        tracing::info!(
            build = order.build,
            error = error.failure().message,
            "a build has no template any more"
        );
        discard(&state, &order.caller.owner, snapshot.into_iter().collect());
    }
    state.books.jobs.close(&order.caller.owner, &order.build);
}

/// Makes the sandbox, has the work done in it, and takes it away again.
async fn make(state: AppState, order: Order, job: Arc<Job>) -> Result<Image, Failure> {
    let engine = state.engine.as_(&order.caller);
    let (done, layer) = resume_point(&state, &order).await;
    let (from, context) = match layer {
        Some(Layer { snapshot, context, .. }) => (Some(snapshot), context),
        None => (order.base.from.clone(), order.base.context.clone()),
    };
    let failed = |error: E2bError| Failure::new("base", error.failure().message);
    let id = make_sandbox(&state, &engine, &order, (from, &context)).await.map_err(failed)?;
    let sandbox = engine.sandbox(&id);
    let work = Work { state: &state, order: &order, job: &job, place: Place { sandbox: &sandbox }, context };
    let made = tokio::time::timeout(LONGEST, work.all(done)).await.unwrap_or_else(|_| {
        Err(Failure::new("", format!("the build took longer than {} s", LONGEST.as_secs())))
    });
    if let Err(error) = sandbox.stop(StoppedFiles::Delete).await {
        tracing::warn!(sandbox.id = %id, error = chain(&error), "the sandbox of a build could not be removed");
    }
    made
}

/// How many steps need not be done again, and the state after them.
async fn resume_point(state: &AppState, order: &Order) -> (usize, Option<Layer>) {
    let Ok(book) = Books::of(state, &order.caller.owner).await else { return (0, None) };
    if order.force {
        return (0, None);
    }
    let usable =
        order.steps.iter().take_while(|step| !step.force).filter(|step| book.layer(&step.key).is_some());
    let candidates: Vec<&Numbered> = usable.collect();
    for step in candidates.into_iter().rev() {
        let Some(layer) = book.layer(&step.key) else { continue };
        let found = state.engine.as_(&order.caller).snapshots().get(&layer.snapshot).await;
        let there = found.is_ok_and(|snapshot| !snapshot.damaged);
        let key = step.key.clone();
        let noted = Books::change(state, &order.caller.owner, move |book| {
            book.use_layer(&key, there);
            Ok(())
        });
        if noted.await.is_ok() && there {
            return (step.number, Some(layer.clone()));
        }
    }
    (0, None)
}

async fn make_sandbox(
    state: &AppState,
    engine: &Access,
    order: &Order,
    (from, context): (Option<SnapshotId>, &Context),
) -> Result<SandboxId, E2bError> {
    let own = &state.settings.default_limits;
    let longest_s = LONGEST.as_secs() + SPARE_S;
    let limits = Limits {
        cpus: order.cpus.unwrap_or(own.cpus),
        memory: order.memory.unwrap_or(own.memory),
        lifetime_s: longest_s.min(state.settings.most_limits.lifetime_s),
        ..own.clone()
    };
    let (label, value) = BUILD_LABEL;
    let spec = SandboxSpec {
        limits,
        labels: [(label.to_owned(), value.to_owned())].into(),
        workdir: Some(PathBuf::from("/")),
        user: Some("root".to_owned()),
        network: state.settings.network.default.clone(),
        ..SandboxSpec::new(context.template.clone())
    };
    let sandbox = NewSandbox {
        on_expiry: OnExpiry::Delete,
        annotations: [(BUILD_NOTE.to_owned(), order.build.clone())].into(),
        from,
        automatic: Some(Automatic::Off),
        ..NewSandbox::new(spec)
    };
    let request = Acquire { fresh: true, ..Acquire::new(order.caller.name.clone(), sandbox) };
    Ok(engine.sessions().acquire(request).await?.sandbox.id)
}

/// Captures the sandbox, under a name that keeps the snapshot when the sandbox is gone.
pub(super) async fn capture(work: &Work<'_>, durable: bool) -> Result<SnapshotId, E2bError> {
    let name = Books::snapshot_name(work.state, work.place.sandbox.owner()).await?;
    let take = TakeSnapshot { name: Some(name), durable, session: None };
    Ok(work.place.sandbox.history().take(take).await?.snapshot.id)
}

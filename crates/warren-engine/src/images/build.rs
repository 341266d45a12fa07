//! A build, from its announcement to its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use warren_core::{
    Automatic, BuildFailure, BuildId, BuildOutcome, Built, ByteSize, Cpus, DEFAULT_TAG, ErrorCode,
    ImageAddress, ImageId, ImageOrigin, KeptStep, Limits, OnExpiry, SandboxId, SandboxSpec, StartCommands,
};

use super::change::Fate;
use super::recipe::{KeyedStep, keyed};
use super::start::Place;
use super::work::Work;
use super::{Beginning, ImageError, Images, Recipe};
use crate::error::sentence;
use crate::state::{BuildLog, LogLevel};
use crate::work_kind::WorkKind;
use crate::{Acquire, EngineError, EngineStep, NewSandbox, StoppedFiles};

/// The longest that a build may take once it has begun.
const LONGEST: Duration = Duration::from_secs(3600);

/// How much longer its sandbox may live, to be cleared away.
const SPARE_S: u64 = 120;

/// The label of sandboxes in which something is built. Its value is the build.
const BUILD_LABEL: &str = "warren.build";

/// A build that somebody announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBuild {
    /// Of the image. One that does not exist yet is made.
    pub name: String,
    /// Empty: the default one.
    pub tags: Vec<String>,
    pub cpus: Option<Cpus>,
    pub memory: Option<ByteSize>,
}

/// A build that is to be made.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) image: ImageId,
    pub(super) build: BuildId,
    pub(super) base: Beginning,
    pull: Option<ImageAddress>,
    pub(super) user: Option<String>,
    pub(super) steps: Vec<KeyedStep>,
    pub(super) start: Option<StartCommands>,
    force: bool,
    cpus: Option<Cpus>,
    memory: Option<ByteSize>,
}

pub(super) fn failure(step: &str, message: impl Into<String>) -> BuildFailure {
    BuildFailure { message: message.into(), step: step.to_owned(), unknown_user: None }
}

/// A failure of the engine, as the end of a build. What is no tenant's business goes to the log.
pub(super) fn failed(step: &str, what: &str, error: &EngineError) -> BuildFailure {
    if error.code() == ErrorCode::Internal {
        tracing::error!(step, error = sentence(error), "a build failed");
    }
    failure(step, format!("{what}: {}", error.told()))
}

impl Images {
    /// Writes down that something is to be built. Says which build of which image it is.
    pub async fn announce(&self, new: NewBuild) -> Result<(ImageId, BuildId), ImageError> {
        let (id, now) = (BuildId::from_random(self.parts().random.bits()), self.now());
        let fresh = self.fresh(Some(new.name.clone()), ImageOrigin::Steps);
        let tags = if new.tags.is_empty() { vec![DEFAULT_TAG.to_owned()] } else { new.tags };
        let announced = self.change_or_make(fresh, move |image| {
            image.cpus = new.cpus.or(image.cpus);
            image.memory = new.memory.or(image.memory);
            image.announce(id.clone(), tags.clone(), now);
            Ok((image.id.clone(), id.clone()))
        });
        announced.await
    }

    /// Begins with a build that was announced. Nobody waits for its end.
    pub async fn begin(&self, name: &str, build: &BuildId, recipe: Recipe) -> Result<(), ImageError> {
        let order = self.order(name, build, recipe).await?;
        let log = self.builds().open(self.owner(), build, Arc::clone(&self.parts().clock))?;
        let (id, node) = (order.build.clone(), self.engine().node().clone());
        let begun =
            self.change(order.image.as_str(), move |image| Ok((Fate::Stays, image.begin(&id, &node)?)));
        if let Err(error) = begun.await {
            self.builds().forget(self.owner(), build);
            return Err(error);
        }
        (self.parts().passed)(EngineStep::ImageBegun);
        tokio::spawn(self.inner().carry_out(order, log));
        Ok(())
    }

    async fn order(&self, name: &str, build: &BuildId, recipe: Recipe) -> Result<Order, ImageError> {
        let Recipe { mut base, pull, user, steps, start, force } = recipe;
        let steps = keyed(steps, &self.mark(&base).await?)?;
        let image = self.get(name).await?;
        if let Some(user) = &user {
            base.context.user.get_or_insert_with(|| user.clone());
            base.context.workdir.get_or_insert_with(|| PathBuf::from(format!("/home/{user}")));
        }
        Ok(Order {
            image: image.id,
            build: build.clone(),
            start: start.or_else(|| base.start.clone()),
            base,
            pull,
            user,
            steps,
            force,
            cpus: image.cpus,
            memory: image.memory,
        })
    }

    /// Changes whenever the base does.
    async fn mark(&self, base: &Beginning) -> Result<String, EngineError> {
        let (template, known) = (&base.context.template, self.engine().templates().await?);
        let digest = known.into_iter().find(|info| info.name == *template).map(|info| info.digest);
        let from = base.from.as_ref().map(ToString::to_string).unwrap_or_default();
        Ok(format!("{template} {} {from}", digest.unwrap_or_default()))
    }

    /// From the wait for room to the record of what became of it.
    async fn carry_out(self, order: Order, log: Arc<BuildLog>) {
        let _room = self.builds().room().await;
        log.begin();
        // In a task of its own, so that whatever happens to it the build has an end.
        let made = tokio::spawn(self.clone().make(order.clone(), Arc::clone(&log)));
        let made = made.await.unwrap_or_else(|error| {
            self.engine().fault();
            tracing::error!(error = sentence(&error), "a build broke off");
            Err(failure("", "the server failed; its log says more"))
        });
        let (outcome, snapshot) = match made {
            Ok(built) => {
                log.add(LogLevel::Info, "finalize", "Build finished");
                let snapshot = built.snapshot.clone();
                (BuildOutcome::Ready(Box::new(built)), Some(snapshot))
            }
            Err(failure) => {
                log.add(LogLevel::Error, &failure.step, &failure.message);
                (BuildOutcome::Failed(failure), None)
            }
        };
        let (build, now) = (order.build.clone(), self.now());
        let finish = move |image: &mut warren_core::ImageRecord| {
            Ok((Fate::Stays, image.finish(&build, outcome.clone(), now)?))
        };
        match self.change(order.image.as_str(), finish).await {
            Ok(()) => (self.parts().passed)(EngineStep::ImageWritten),
            Err(error) => {
                tracing::info!(build.id = %order.build, error = sentence(&error), "the end of a build is not in its image");
                self.discard(snapshot.into_iter().collect());
            }
        }
        self.builds().close(self.owner(), &order.build);
    }

    /// Makes the sandbox, has the work done in it, and takes it away again.
    async fn make(self, mut order: Order, log: Arc<BuildLog>) -> Result<Built, BuildFailure> {
        self.pull(&mut order, &log).await?;
        let (done, state) = self.resume_point(&order).await;
        let base = match state {
            Some(KeptStep { snapshot, context, .. }) => {
                Beginning { context, from: Some(snapshot), start: None }
            }
            None => order.base.clone(),
        };
        let made = self.make_sandbox(&order, &base).await;
        let id = made.map_err(|error| failed("base", "failed to make a sandbox", &error))?;
        let sandbox = self.access.sandbox(&id);
        let place = Place { sandbox: &sandbox };
        let work = Work { images: &self, order: &order, log: &log, place, context: base.context };
        let made = tokio::time::timeout(LONGEST, work.all(done)).await.unwrap_or_else(|_| {
            Err(failure("", format!("the build took longer than {} s", LONGEST.as_secs())))
        });
        if let Err(error) = sandbox.stop(StoppedFiles::Delete).await {
            tracing::warn!(sandbox.id = %id, error = sentence(&error), "the sandbox of a build could not be removed");
        }
        made
    }

    /// Has the template made of its image, and keys the steps by what that is.
    async fn pull(&self, order: &mut Order, log: &BuildLog) -> Result<(), BuildFailure> {
        let Some(image) = order.pull.take() else { return Ok(()) };
        let cannot = |error: EngineError| failed("base", &format!("failed to pull '{image}'"), &error);
        log.add(LogLevel::Info, "base", &format!("Pulling {image}"));
        let place = self.access.place_for(WorkKind::Transfer).await.map_err(cannot)?;
        let (templates, wanted) = (Arc::clone(&self.parts().templates), image.clone());
        let pulled = place.work(move || templates.pull_open(&wanted)).await;
        order.base.context.template = pulled
            .map_err(EngineError::NoThread)
            .and_then(|name| name.map_err(EngineError::Template))
            .map_err(cannot)?;
        let base = self.mark(&order.base).await.map_err(cannot)?;
        let steps = std::mem::take(&mut order.steps).into_iter().map(KeyedStep::plain).collect();
        order.steps = keyed(steps, &base).map_err(|error| failure("base", error.to_string()))?;
        Ok(())
    }

    /// How many steps need not be done again, and the state after them.
    async fn resume_point(&self, order: &Order) -> (usize, Option<KeptStep>) {
        let owner = self.owner().clone();
        let Ok(kept) = self.engine().catalog(move |catalog| catalog.kept_steps(&owner)).await else {
            return (0, None);
        };
        let usable = order.steps.iter().take_while(|step| !order.force && !step.force);
        for step in usable.collect::<Vec<_>>().into_iter().rev() {
            let Some(state) = kept.iter().find(|state| state.key == step.key) else { continue };
            let found = self.access.snapshots().get(&state.snapshot).await;
            let there = found.is_ok_and(|snapshot| !snapshot.damaged);
            if self.note_use(state, there).await.is_ok() && there {
                return (step.number, Some(state.clone()));
            }
        }
        (0, None)
    }

    /// A state between steps was used, or turned out to be gone.
    async fn note_use(&self, state: &KeptStep, there: bool) -> Result<(), ImageError> {
        let (owner, used) = (self.owner().clone(), KeptStep { used_unix_ms: self.now(), ..state.clone() });
        let noted = self.engine().catalog(move |catalog| match there {
            true => catalog.keep_step(&owner, &used),
            false => catalog.forget_step(&owner, &used.key),
        });
        Ok(noted.await?)
    }

    async fn make_sandbox(&self, order: &Order, base: &Beginning) -> Result<SandboxId, EngineError> {
        let settings = &self.engine().shared.settings;
        let own = &settings.default_limits;
        let longest_s = LONGEST.as_secs() + SPARE_S;
        let limits = Limits {
            cpus: order.cpus.unwrap_or(own.cpus),
            memory: order.memory.unwrap_or(own.memory),
            lifetime_s: longest_s.min(settings.most_limits.lifetime_s),
            ..own.clone()
        };
        let spec = SandboxSpec {
            limits,
            labels: [(BUILD_LABEL.to_owned(), order.build.to_string())].into(),
            workdir: Some(PathBuf::from("/")),
            user: Some("root".to_owned()),
            network: settings.network.default.clone(),
            ..SandboxSpec::new(base.context.template.clone())
        };
        let sandbox = NewSandbox {
            on_expiry: OnExpiry::Delete,
            build: Some(order.build.clone()),
            from: base.from.clone(),
            automatic: Some(Automatic::Off),
            ..NewSandbox::new(spec)
        };
        let request = Acquire { fresh: true, ..Acquire::new(self.access.caller().name.clone(), sandbox) };
        Ok(self.access.sessions().acquire(request).await?.sandbox.id)
    }
}

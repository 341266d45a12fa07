//! Steps of a build, done in its sandbox.

use std::path::Path;
use std::time::Duration;

use warren_core::{BuildFailure, BuildStep, Built, CopyFiles, ImageContext, KeptStep, SnapshotId};
use warren_wire::guest::{FileCall, FileOperation};

use super::build::{Order, failed, failure};
use super::command::{Output, SendError};
use super::recipe::{KeyedStep, expand, from_directory};
use super::start::{Environment, Place};
use super::{ImageError, Images};
use crate::ports::blocking;
use crate::state::{BuildLog, LogLevel};
use crate::{EngineError, EngineStep};

const COPY: &str = include_str!("copy.sh");
const USER: &str = include_str!("user.sh");

/// Where archives are put on their way. Not below `/tmp`, which is memory.
const ARCHIVE: &str = "/.warren-build/context";

/// How long the start command of an image may take to be ready.
const READY: Duration = Duration::from_secs(600);

/// The most states between steps that are kept for later builds of an owner.
const MOST_KEPT: usize = 64;

/// The most bytes of variables. Sandboxes take no more.
const MOST_ENV_BYTES: usize = 512 << 10;

/// A build at work.
pub(super) struct Work<'a> {
    pub(super) images: &'a Images,
    pub(super) order: &'a Order,
    pub(super) log: &'a BuildLog,
    pub(super) place: Place<'a>,
    pub(super) context: ImageContext,
}

impl Work<'_> {
    /// All that is left to do after so many steps.
    pub(super) async fn all(mut self, done: usize) -> Result<Built, BuildFailure> {
        let count = self.order.steps.len();
        if done == 0 {
            self.tell("base", &format!("Building on {}", self.context.template));
            if let Some(user) = &self.order.user {
                self.make_user("base", user, true).await?;
            }
        }
        for step in &self.order.steps {
            let name = step.number.to_string();
            if step.number <= done {
                self.tell(&name, &format!("CACHED [{name}/{count}] {}", step.step));
                continue;
            }
            self.is_wanted(&name).await?;
            self.tell(&name, &format!("[{name}/{count}] {}", step.step));
            self.one(&name, &step.step).await?;
            self.keep(&name, step).await;
        }
        self.finalize().await
    }

    fn tell(&self, step: &str, text: &str) {
        self.log.add(LogLevel::Info, step, text);
    }

    fn output<'a>(&'a self, step: &'a str) -> Output<'a> {
        Output { log: self.log, step }
    }

    /// Fails if the image was deleted meanwhile.
    async fn is_wanted(&self, step: &str) -> Result<(), BuildFailure> {
        let gone = || failure(step, "the image was deleted");
        let image = self.images.get(self.order.image.as_str()).await.map_err(|_| gone())?;
        if image.builds.contains_key(&self.order.build) { Ok(()) } else { Err(gone()) }
    }

    async fn one(&mut self, name: &str, step: &BuildStep) -> Result<(), BuildFailure> {
        match step {
            BuildStep::Run { command, user } => {
                let mut with = self.environment();
                with.user = user.clone().or(with.user);
                self.place.run(command, &with, self.output(name)).await
            }
            BuildStep::Copy(copy) => self.copy(name, copy).await,
            BuildStep::Env(pairs) => self.set(name, pairs).await,
            BuildStep::Workdir(path) => self.enter(name, path).await,
            BuildStep::User { name: user, sudo } => {
                self.make_user(name, user, *sudo).await?;
                self.context.user = Some(user.clone());
                Ok(())
            }
        }
    }

    /// Where commands run now.
    fn environment(&self) -> Environment {
        let workdir = self.context.workdir.as_ref().map(|path| path.to_string_lossy().into_owned());
        Environment { user: self.context.user.clone(), workdir, env: self.context.env.clone() }
    }

    /// A path as the build sees it, with its variables filled in.
    fn path(&self, text: &str) -> String {
        let directory = self.context.workdir.as_deref().unwrap_or_else(|| Path::new("/"));
        from_directory(&expand(text, &self.context.env), directory)
    }

    async fn make_user(&self, step: &str, name: &str, sudo: bool) -> Result<(), BuildFailure> {
        let args = [name, if sudo { "true" } else { "" }];
        let made = self.place.script("warren-user", USER, &args, self.output(step)).await;
        made.map_err(|why| failure(step, format!("failed to make the user '{name}': {why}")))
    }

    async fn copy(&self, step: &str, copy: &CopyFiles) -> Result<(), BuildFailure> {
        let what = format!("failed to copy '{}' to '{}'", copy.source, copy.target);
        let sent = self.send(copy).await;
        sent.map_err(|error| match error {
            SendError::Engine(error) => failed(step, &what, &error),
            error => failure(step, format!("{what}: {error}")),
        })?;
        let target = self.path(&copy.target);
        let owner = copy.owner.as_ref().or(self.context.user.as_ref()).map(String::as_str).unwrap_or("root");
        // The group of a user who is named alone is the user's own. Of a number nobody knows whose
        // that is.
        let alone = !owner.contains(':') && !owner.bytes().all(|byte| byte.is_ascii_digit());
        let owner = if alone { format!("{owner}:") } else { owner.to_owned() };
        let mode = copy.mode.as_deref().unwrap_or_default();
        let args = [ARCHIVE, &copy.source, &target, &owner, mode];
        let copied = self.place.script("warren-copy", COPY, &args, self.output(step)).await;
        copied.map_err(|why| failure(step, format!("{what}: {why}")))
    }

    async fn send(&self, copy: &CopyFiles) -> Result<(), SendError> {
        let (files, owner, hash) = self.images.files(&copy.hash);
        let archive = blocking(move || files.open(&owner, &hash)).await.map_err(SendError::of_read)?;
        self.place.send(archive, ARCHIVE).await
    }

    async fn set(&mut self, step: &str, pairs: &[(String, String)]) -> Result<(), BuildFailure> {
        let mut known = self.context.env.clone();
        if pairs.iter().any(|(_, value)| value.contains('$')) {
            known.extend(
                self.place
                    .variables(&self.environment())
                    .await
                    .map_err(|error| failed(step, "failed to read variables", &error))?,
            );
        }
        for (name, value) in pairs {
            let value = expand(value, &known);
            known.insert(name.clone(), value.clone());
            self.context.env.insert(name.clone(), value);
        }
        let bytes: usize = self.context.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
        if bytes > MOST_ENV_BYTES {
            return Err(failure(step, format!("the variables take more than {MOST_ENV_BYTES} bytes")));
        }
        Ok(())
    }

    async fn enter(&mut self, step: &str, path: &str) -> Result<(), BuildFailure> {
        let path = self.path(path);
        let path = if path == "/" { path.as_str() } else { path.trim_end_matches('/') };
        let operation = FileOperation::MakeDirectory { path: path.into(), permissions: None, parents: true };
        let user = self.context.user.as_deref().map(Into::into);
        let call = FileCall { user, operation, as_root: Some(true) };
        let made = self.place.sandbox.files().call(call).await;
        made.map_err(|error| failed(step, &format!("failed to make '{path}'"), &error))?;
        self.context.workdir = Some(path.into());
        Ok(())
    }

    /// Keeps the state after a step for other builds. They can do without.
    async fn keep(&self, name: &str, step: &KeyedStep) {
        if let Err(error) = self.kept(step).await {
            let message = format!("this step cannot be skipped the next time: {}", error.told());
            self.log.add(LogLevel::Debug, name, &message);
        }
    }

    async fn kept(&self, step: &KeyedStep) -> Result<(), ImageError> {
        let snapshot = self.images.take(self.place.sandbox.id(), false).await?.snapshot.id;
        (self.images.parts().passed)(EngineStep::ImageStepTaken);
        let (owner, used_unix_ms) = (self.images.owner().clone(), self.images.now());
        let state = KeptStep {
            key: step.key.clone(),
            snapshot: snapshot.clone(),
            context: self.context.clone(),
            used_unix_ms,
        };
        let kept = self.images.engine().catalog(move |catalog| {
            let mut known = catalog.kept_steps(&owner)?;
            catalog.keep_step(&owner, &state)?;
            let replaced = known.iter().position(|known| known.key == state.key);
            let replaced = replaced.map(|index| known.remove(index).snapshot);
            // Those that nobody used for the longest time go.
            let surplus = (known.len() + 1).saturating_sub(MOST_KEPT);
            let mut gone: Vec<SnapshotId> = replaced.into_iter().collect();
            for old in known.drain(..surplus) {
                catalog.forget_step(&owner, &old.key)?;
                gone.push(old.snapshot);
            }
            Ok::<_, ImageError>(gone)
        });
        match kept.await {
            Ok(gone) => {
                (self.images.parts().passed)(EngineStep::ImageStepKept);
                self.images.discard(gone);
                Ok(())
            }
            Err(error) => {
                self.images.discard(vec![snapshot]);
                Err(error)
            }
        }
    }

    /// Shows that the image starts, and captures it.
    async fn finalize(self) -> Result<Built, BuildFailure> {
        let step = "finalize";
        if let Some(start) = &self.order.start {
            self.tell(step, "Running the start command");
            let with = self.environment();
            let failed = |error: EngineError| failed(step, "failed to start", &error);
            self.place.begin(start, &with).await.map_err(failed)?;
            if !self.place.until_ready(start, &with, READY).await.map_err(failed)? {
                let message = format!("the ready command did not succeed within {} s", READY.as_secs());
                return Err(failure(step, message));
            }
        }
        self.tell(step, "Taking a snapshot");
        let taken = self.images.take(self.place.sandbox.id(), true).await;
        let snapshot = taken.map_err(|error| failed(step, "failed to take a snapshot", &error))?.snapshot.id;
        (self.images.parts().passed)(EngineStep::ImageTaken);
        let (sandbox, start) = (self.place.sandbox.id().clone(), self.order.start.clone());
        Ok(Built { snapshot, sandbox, context: self.context, start })
    }
}

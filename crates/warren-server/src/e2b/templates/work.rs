//! What is done in the sandbox of a build.

use std::path::Path;
use std::time::Duration;

use warren_e2b::rest::templates::LogLevel;
use warren_engine::EngineError;
use warren_wire::guest::{FileCall, FileOperation};

use super::book::{Context, Image, Layer};
use super::build::{Failure, Order, capture};
use super::command::Output;
use super::contexts::Contexts;
use super::jobs::Job;
use super::start::{Place, Surroundings};
use super::steps::{Copy, Numbered, Step, expand, from_directory};
use super::store::Books;
use crate::error::chain;
use crate::state::AppState;

const COPY: &str = include_str!("copy.sh");
const USER: &str = include_str!("user.sh");

/// Where archives are put on their way. Not below `/tmp`, which is memory.
const ARCHIVE: &str = "/.warren-build/context";

/// How long what a template starts with may take to be ready.
const READY: Duration = Duration::from_secs(600);

/// A build at work.
pub(super) struct Work<'a> {
    pub(super) state: &'a AppState,
    pub(super) order: &'a Order,
    pub(super) job: &'a Job,
    pub(super) place: Place<'a>,
    pub(super) context: Context,
}

impl Work<'_> {
    /// All that is left to do after so many steps.
    pub(super) async fn all(mut self, done: usize) -> Result<Image, Failure> {
        let count = self.order.steps.len();
        if done == 0 {
            self.log("base", &format!("Building on {}", self.context.template));
            self.make_user("base", "user", true).await?;
        }
        for step in &self.order.steps {
            let name = step.number.to_string();
            if step.number <= done {
                self.log(&name, &format!("CACHED [{name}/{count}] {}", step.step));
                continue;
            }
            self.is_wanted(&name).await?;
            self.log(&name, &format!("[{name}/{count}] {}", step.step));
            self.one(&name, &step.step).await?;
            self.keep(&name, step).await;
        }
        self.finalize().await
    }

    fn log(&self, step: &str, text: &str) {
        self.job.log(LogLevel::Info, step, text);
    }

    fn output<'a>(&'a self, step: &'a str) -> Output<'a> {
        Output { job: self.job, step }
    }

    /// Whether somebody waits for it still: a template may be deleted while it is built.
    async fn is_wanted(&self, step: &str) -> Result<(), Failure> {
        let gone = || Failure::new(step, "the template was deleted");
        let book = Books::of(self.state, &self.order.caller.owner).await.map_err(|_| gone())?;
        let found = book.templates.get(&self.order.template);
        found.filter(|template| template.builds.contains_key(&self.order.build)).map(drop).ok_or_else(gone)
    }

    async fn one(&mut self, name: &str, step: &Step) -> Result<(), Failure> {
        match step {
            Step::Run { command, user } => {
                let mut around = self.surroundings();
                around.user = user.clone().or(around.user);
                self.place.run(command, &around, self.output(name)).await.map_err(Failure::of(name))
            }
            Step::Copy(copy) => self.copy(name, copy).await,
            Step::Env(pairs) => self.set(name, pairs).await,
            Step::Workdir(path) => self.enter(name, path).await,
            Step::User { name: user, sudo } => {
                self.make_user(name, user, *sudo).await?;
                self.context.user = Some(user.clone());
                Ok(())
            }
        }
    }

    /// Where commands run now.
    fn surroundings(&self) -> Surroundings {
        let workdir = self.context.workdir.as_ref().map(|path| path.to_string_lossy().into_owned());
        Surroundings { user: self.context.user.clone(), workdir, env: self.context.env.clone() }
    }

    /// A path as the build sees it, with its variables filled in.
    fn path(&self, text: &str) -> String {
        let directory = self.context.workdir.as_deref().unwrap_or_else(|| Path::new("/"));
        from_directory(&expand(text, &self.context.env), directory)
    }

    async fn make_user(&self, step: &str, name: &str, sudo: bool) -> Result<(), Failure> {
        let args = [name, if sudo { "true" } else { "" }];
        let made = self.place.script("warren-user", USER, &args, self.output(step)).await;
        made.map_err(|failure| Failure::new(step, format!("failed to make the user '{name}': {}", failure.0)))
    }

    async fn copy(&self, step: &str, copy: &Copy) -> Result<(), Failure> {
        let what = format!("failed to copy '{}' to '{}'", copy.source, copy.target);
        let archive = Contexts::of(&self.state.config, &self.order.caller.owner).path(&copy.hash);
        let sent = self.place.send(&archive, ARCHIVE).await;
        sent.map_err(|error| Failure::new(step, format!("{what}: {}", chain(&error))))?;
        let target = self.path(&copy.target);
        let owner = copy.owner.as_ref().or(self.context.user.as_ref()).map(String::as_str).unwrap_or("root");
        // The group of a user who is named alone is the user's own. Of a number nobody knows whose that is.
        let alone = !owner.contains(':') && !owner.bytes().all(|byte| byte.is_ascii_digit());
        let owner = if alone { format!("{owner}:") } else { owner.to_owned() };
        let mode = copy.mode.as_deref().unwrap_or_default();
        let args = [ARCHIVE, &copy.source, &target, &owner, mode];
        let copied = self.place.script("warren-copy", COPY, &args, self.output(step)).await;
        copied.map_err(|failure| Failure::new(step, format!("{what}: {}", failure.0)))
    }

    async fn set(&mut self, step: &str, pairs: &[(String, String)]) -> Result<(), Failure> {
        let failed =
            |error: EngineError| Failure::new(step, format!("failed to read variables: {}", chain(&error)));
        let mut known = self.context.env.clone();
        if pairs.iter().any(|(_, value)| value.contains('$')) {
            known.extend(self.place.variables(&self.surroundings()).await.map_err(failed)?);
        }
        for (name, value) in pairs {
            let value = expand(value, &known);
            known.insert(name.clone(), value.clone());
            self.context.env.insert(name.clone(), value);
        }
        Ok(())
    }

    async fn enter(&mut self, step: &str, path: &str) -> Result<(), Failure> {
        let path = self.path(path);
        let path = if path == "/" { path.as_str() } else { path.trim_end_matches('/') };
        let operation = FileOperation::MakeDirectory { path: path.into(), permissions: None, parents: true };
        let user = self.context.user.as_deref().map(Into::into);
        let call = FileCall { user, operation, as_root: Some(true) };
        let made = self.place.sandbox.files().call(call).await;
        made.map_err(|error| Failure::new(step, format!("failed to make '{path}': {}", chain(&error))))?;
        self.context.workdir = Some(path.into());
        Ok(())
    }

    /// Keeps the state after a step for other builds. They can do without.
    async fn keep(&self, name: &str, step: &Numbered) {
        let snapshot = match capture(self, false).await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                let message =
                    format!("this step cannot be skipped the next time: {}", error.failure().message);
                return self.job.log(LogLevel::Debug, name, &message);
            }
        };
        let layer = Layer { key: step.key.clone(), snapshot, context: self.context.clone() };
        let kept = Books::change(self.state, &self.order.caller.owner, move |book| {
            book.keep_layer(layer);
            Ok(())
        });
        if let Err(error) = kept.await {
            self.job.log(LogLevel::Debug, name, &error.failure().message);
        }
    }

    /// Shows that the template starts, and captures it.
    async fn finalize(self) -> Result<Image, Failure> {
        let step = "finalize";
        if let Some(start) = &self.order.start {
            self.log(step, "Running the start command");
            let around = self.surroundings();
            let failed =
                |error: EngineError| Failure::new(step, format!("failed to start: {}", chain(&error)));
            self.place.begin(start, &around).await.map_err(failed)?;
            if !self.place.until_ready(start, &around, READY).await.map_err(failed)? {
                let message = format!("the ready command did not succeed within {} s", READY.as_secs());
                return Err(Failure::new(step, message));
            }
        }
        self.log(step, "Taking a snapshot");
        let snapshot = capture(&self, true).await;
        let snapshot = snapshot.map_err(|error| Failure::new(step, error.failure().message))?;
        let (sandbox, start) = (self.place.sandbox.id().clone(), self.order.start.clone());
        Ok(Image { snapshot, sandbox, context: self.context, start })
    }
}

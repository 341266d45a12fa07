//! The engine's interface, called by threads that wait. One thread of ours speaks HTTP for all.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bollard::Docker;
use bollard::errors::Error;
use bollard::exec::StartExecResults;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerStatsResponse, ContainerSummaryStateEnum,
    EventMessage, ImageInspect, SystemInfo, VolumeCreateRequest,
};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, EventsOptionsBuilder,
    KillContainerOptionsBuilder, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
    RemoveVolumeOptions, StatsOptionsBuilder, UploadToContainerOptionsBuilder,
};
use futures_util::stream::{BoxStream, StreamExt as _};
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use tokio::runtime::Runtime;
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::address::Way;
use super::shape;

/// How long the engine may take for one answer, in seconds. Removing many files takes long.
const PATIENCE_S: u64 = 120;

/// A failed call: what was asked, and what the engine answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("the engine does not answer on `{at}`")]
    Away { at: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the engine knows none of this name")]
    NotFound(#[source] Box<Error>),
    #[error("the engine is in the way of it")]
    Conflict(#[source] Box<Error>),
    #[error("the engine failed")]
    Failed(#[source] Box<Error>),
}

impl CallError {
    /// The error of a port's call that did this.
    pub(super) fn during(self, action: impl Into<String>) -> IsolationError {
        let kind = match self {
            Self::Away { .. } => IsolationErrorKind::Away,
            Self::NotFound(_) => IsolationErrorKind::NotFound,
            Self::Conflict(_) | Self::Failed(_) => IsolationErrorKind::Host,
        };
        IsolationError::caused(kind, action, self)
    }
}

/// A container of ours, as a list shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Its first process has not ended.
    pub(super) runs: bool,
    pub(super) paused: bool,
}

/// An end of a container's standard input. It is closed when this is dropped or its process ends.
pub(super) struct Lifeline(#[expect(dead_code, reason = "it is held")] Pin<Box<dyn AsyncWrite + Send>>);

impl std::fmt::Debug for Lifeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lifeline")
    }
}

#[derive(Debug)]
pub(super) struct Client {
    calls: Calls,
    /// Taken when this is dropped.
    runtime: Option<Runtime>,
}

/// All that the thread which speaks HTTP needs for a call.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    way: Way,
    /// Made at the first answer, which tells the version that the engine speaks.
    docker: Arc<Mutex<Option<Docker>>>,
}

impl Client {
    pub(super) fn new(way: Way) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("warren-docker")
            .enable_all()
            .build()?;
        Ok(Self { calls: Calls { way, docker: Arc::default() }, runtime: Some(runtime) })
    }

    pub(super) fn way(&self) -> &Way {
        &self.calls.way
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// An error unless somebody takes calls where the engine is. Costs some microseconds here, and
    /// a message there and back on another machine.
    pub(super) fn require(&self) -> Result<(), IsolationError> {
        self.calls.way.knock().map_err(|error| {
            let away = CallError::Away { at: self.calls.way.to_string(), source: error.into() };
            away.during("reach the Docker engine")
        })
    }

    pub(super) fn info(&self) -> Result<SystemInfo, CallError> {
        self.call(move |docker| async move { docker.info().await })
    }

    pub(super) fn version(&self) -> Result<String, CallError> {
        self.call(move |docker| async move { Ok(docker.client_version().to_string()) })
    }

    pub(super) fn image(&self, name: &str) -> Result<ImageInspect, CallError> {
        let name = name.to_owned();
        self.call(move |docker| async move { docker.inspect_image(&name).await })
    }

    pub(super) fn create(&self, name: &str, body: ContainerCreateBody) -> Result<(), CallError> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        self.call(move |docker| async move { docker.create_container(Some(options), body).await.map(drop) })
    }

    /// Takes hold of a container's standard input, before it is started.
    pub(super) fn hold(&self, name: &str) -> Result<Lifeline, CallError> {
        let name = name.to_owned();
        let options = AttachContainerOptionsBuilder::default().stdin(true).stream(true).build();
        self.call(move |docker| async move {
            let attached = docker.attach_container(&name, Some(options)).await?;
            Ok(Lifeline(attached.input))
        })
    }

    pub(super) fn start(&self, name: &str) -> Result<(), CallError> {
        let name = name.to_owned();
        self.call(move |docker| async move { docker.start_container(&name, None).await })
    }

    pub(super) fn inspect(&self, name: &str) -> Result<ContainerInspectResponse, CallError> {
        let name = name.to_owned();
        self.call(move |docker| async move { docker.inspect_container(&name, None).await })
    }

    pub(super) fn kill(&self, name: &str) -> Result<(), CallError> {
        let name = name.to_owned();
        let options = KillContainerOptionsBuilder::default().signal("KILL").build();
        self.call(move |docker| async move { docker.kill_container(&name, Some(options)).await })
    }

    pub(super) fn pause(&self, name: &str, paused: bool) -> Result<(), CallError> {
        let name = name.to_owned();
        self.call(move |docker| async move {
            if paused { docker.pause_container(&name).await } else { docker.unpause_container(&name).await }
        })
    }

    /// Removes a container with its files. One that is gone is removed.
    pub(super) fn remove(&self, name: &str) -> Result<(), CallError> {
        let name = name.to_owned();
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let removed =
            self.call(move |docker| async move { docker.remove_container(&name, Some(options)).await });
        match removed {
            Err(CallError::NotFound(_)) => Ok(()),
            answer => answer,
        }
    }

    /// All containers of a data directory, by the id of the sandbox.
    pub(super) fn list(&self, instance: &str) -> Result<HashMap<String, Seen>, IsolationError> {
        let (calls, instance) = (self.calls.clone(), instance.to_owned());
        let listed = self.wait(async move { calls.list(&instance).await }).map_err(|error| self.told(error));
        listed.map_err(|error| error.during("list the containers of the Docker engine"))
    }

    /// Makes a volume if there is none of this name. Answers when it was made.
    pub(super) fn make_volume(&self, name: &str, instance: &str) -> Result<String, CallError> {
        let labels = HashMap::from([(shape::INSTANCE.to_owned(), instance.to_owned())]);
        let request = VolumeCreateRequest {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..VolumeCreateRequest::default()
        };
        let made = self.call(move |docker| async move { docker.create_volume(request).await })?;
        Ok(made.created_at.unwrap_or_default())
    }

    /// Removes a volume. One that is gone is removed.
    pub(super) fn remove_volume(&self, name: &str) -> Result<(), CallError> {
        let name = name.to_owned();
        let removed =
            self.call(
                move |docker| async move { docker.remove_volume(&name, None::<RemoveVolumeOptions>).await },
            );
        match removed {
            Err(CallError::NotFound(_)) => Ok(()),
            answer => answer,
        }
    }

    /// Unpacks an archive into a directory of a container.
    pub(super) fn put(&self, name: &str, directory: &str, archive: Vec<u8>) -> Result<(), CallError> {
        let name = name.to_owned();
        let options = UploadToContainerOptionsBuilder::default().path(directory).build();
        let archive = bollard::body_full(archive.into());
        self.call(
            move |docker| async move { docker.upload_to_container(&name, Some(options), archive).await },
        )
    }

    /// Starts a relay to the agent in a container.
    pub(super) fn relay(&self, name: &str) -> Result<StartExecResults, CallError> {
        let (name, calls) = (name.to_owned(), self.calls.clone());
        self.call(move |docker| async move { calls.relay(&docker, &name).await })
    }

    /// The figures of a container at this moment.
    pub(super) fn stats(&self, name: &str) -> Result<ContainerStatsResponse, CallError> {
        let name = name.to_owned();
        let options = StatsOptionsBuilder::default().stream(false).one_shot(true).build();
        let nothing = || Error::IOError { err: io::ErrorKind::UnexpectedEof.into() };
        self.call(move |docker| async move {
            let mut told = Box::pin(docker.stats(&name, Some(options)));
            told.next().await.unwrap_or_else(|| Err(nothing()))
        })
    }

    /// Does something on the thread that speaks HTTP, for as long as this is there.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            drop(runtime.spawn(task));
        }
    }

    /// Makes a call on the thread that speaks HTTP, and waits for its answer.
    fn call<T: Send + 'static, F>(
        &self,
        call: impl FnOnce(Docker) -> F + Send + 'static,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let calls = self.calls.clone();
        self.wait(async move { call(calls.connected().await?).await }).map_err(|error| self.told(error))
    }

    fn wait<T: Send + 'static>(
        &self,
        asked: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let gone = || Error::IOError { err: io::ErrorKind::BrokenPipe.into() };
        let Some(runtime) = &self.runtime else { return Err(gone()) };
        let (tell, told) = sync_channel(1);
        runtime.spawn(async move {
            let answer = asked.await;
            // Who asked is still there: he waits.
            drop(tell.send(answer));
        });
        told.recv().map_err(|_| gone())?
    }

    fn told(&self, error: Error) -> CallError {
        match error {
            Error::DockerResponseServerError { status_code: 404, .. } => CallError::NotFound(Box::new(error)),
            Error::DockerResponseServerError { status_code: 409, .. } => CallError::Conflict(Box::new(error)),
            Error::SocketNotFoundError(_)
            | Error::RequestTimeoutError
            | Error::IOError { .. }
            | Error::HyperResponseError { .. }
            | Error::HyperLegacyError { .. } => {
                CallError::Away { at: self.calls.way.to_string(), source: Box::new(error) }
            }
            error => CallError::Failed(Box::new(error)),
        }
    }
}

impl Calls {
    pub(super) async fn connected(&self) -> Result<Docker, Error> {
        if let Some(docker) = &*self.docker.lock() {
            return Ok(docker.clone());
        }
        let docker = self.way.docker(PATIENCE_S)?.negotiate_version().await?;
        *self.docker.lock() = Some(docker.clone());
        Ok(docker)
    }

    /// As [`Client::list`].
    pub(super) async fn list(&self, instance: &str) -> Result<HashMap<String, Seen>, Error> {
        let filters = HashMap::from([("label", vec![of(instance)])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let listed = self.connected().await?.list_containers(Some(options)).await?;
        let seen = |container: bollard::models::ContainerSummary| {
            let id = container.labels?.remove(shape::SANDBOX)?;
            let state = container.state;
            let paused = state == Some(ContainerSummaryStateEnum::PAUSED);
            Some((id, Seen { runs: paused || state == Some(ContainerSummaryStateEnum::RUNNING), paused }))
        };
        Ok(listed.into_iter().filter_map(seen).collect())
    }

    /// True if the engine says that a container runs.
    pub(super) async fn runs(&self, docker: &Docker, container: &str) -> bool {
        let seen = docker.inspect_container(container, None).await;
        seen.is_ok_and(|seen| seen.state.and_then(|state| state.running) == Some(true))
    }

    /// As [`Client::relay`].
    pub(super) async fn relay(&self, docker: &Docker, name: &str) -> Result<StartExecResults, Error> {
        let relay = docker.create_exec(name, shape::relay()).await?;
        docker.start_exec(&relay.id, None).await
    }

    /// Ends of containers of a data directory, and processes that were killed for their memory,
    /// since a moment by the engine's clock.
    pub(super) fn ends(
        &self,
        docker: &Docker,
        instance: &str,
        since: &str,
    ) -> BoxStream<'static, Result<EventMessage, Error>> {
        let word = |word: &str| vec![word.to_owned()];
        let filters = HashMap::from([
            ("type", word("container")),
            ("event", word("die")),
            ("label", vec![of(instance)]),
        ]);
        let options = EventsOptionsBuilder::default().since(since).filters(&filters).build();
        docker.events(Some(options)).boxed()
    }
}

/// The label of a data directory's containers.
fn of(instance: &str) -> String {
    format!("{}={instance}", shape::INSTANCE)
}

impl Drop for Client {
    /// The last to hold it may be a thread that serves others, and must not wait.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The refusal of an engine in the words of who asked.
pub(super) fn refused(id: &SandboxId, what: &str, error: CallError) -> IsolationError {
    match error {
        CallError::Away { .. } => error.during(format!("{what} {id}")),
        error => crate::linux::layer(&format!("the container of {id}"), error),
    }
}

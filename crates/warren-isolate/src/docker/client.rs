//! The engine's interface, called by threads that wait. One thread of ours speaks HTTP for all.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::mpsc::sync_channel;

use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerSummaryStateEnum, ImageInspect, SystemInfo,
};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, KillContainerOptionsBuilder,
    ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use tokio::runtime::Runtime;
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::shape;

/// How long the engine may take for one answer, in seconds. Removing many files takes long.
const PATIENCE_S: u64 = 120;

/// A failed call: what was asked, and what the engine answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("the engine does not answer on `{}`", socket.display())]
    Away { socket: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
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
    socket: PathBuf,
    /// Taken when this is dropped.
    runtime: Option<Runtime>,
    /// Made at the first answer, which tells the version that the engine speaks.
    docker: Mutex<Option<Docker>>,
}

impl Client {
    pub(super) fn new(socket: &Path) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("warren-docker")
            .enable_all()
            .build()?;
        Ok(Self { socket: socket.to_owned(), runtime: Some(runtime), docker: Mutex::default() })
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// An error unless somebody takes calls on the engine's socket. Costs some microseconds.
    pub(super) fn require(&self) -> Result<(), IsolationError> {
        match UnixStream::connect(&self.socket) {
            Ok(_) => Ok(()),
            Err(error) => {
                let away = CallError::Away { socket: self.socket.clone(), source: error.into() };
                Err(away.during("reach the Docker engine"))
            }
        }
    }

    pub(super) fn info(&self) -> Result<SystemInfo, CallError> {
        self.call(|docker| async move { docker.info().await })
    }

    pub(super) fn version(&self) -> Result<String, CallError> {
        self.call(|docker| async move { Ok(docker.client_version().to_string()) })
    }

    pub(super) fn image(&self, name: &str) -> Result<ImageInspect, CallError> {
        let name = name.to_owned();
        self.call(|docker| async move { docker.inspect_image(&name).await })
    }

    pub(super) fn create(&self, name: &str, body: ContainerCreateBody) -> Result<(), CallError> {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        self.call(|docker| async move { docker.create_container(Some(options), body).await.map(drop) })
    }

    /// Takes hold of a container's standard input, before it is started.
    pub(super) fn hold(&self, name: &str) -> Result<Lifeline, CallError> {
        let name = name.to_owned();
        let options = AttachContainerOptionsBuilder::default().stdin(true).stream(true).build();
        self.call(|docker| async move {
            let attached = docker.attach_container(&name, Some(options)).await?;
            Ok(Lifeline(attached.input))
        })
    }

    pub(super) fn start(&self, name: &str) -> Result<(), CallError> {
        let name = name.to_owned();
        self.call(|docker| async move { docker.start_container(&name, None).await })
    }

    pub(super) fn inspect(&self, name: &str) -> Result<ContainerInspectResponse, CallError> {
        let name = name.to_owned();
        self.call(|docker| async move { docker.inspect_container(&name, None).await })
    }

    pub(super) fn kill(&self, name: &str) -> Result<(), CallError> {
        let name = name.to_owned();
        let options = KillContainerOptionsBuilder::default().signal("KILL").build();
        self.call(|docker| async move { docker.kill_container(&name, Some(options)).await })
    }

    pub(super) fn pause(&self, name: &str, paused: bool) -> Result<(), CallError> {
        let name = name.to_owned();
        self.call(|docker| async move {
            if paused { docker.pause_container(&name).await } else { docker.unpause_container(&name).await }
        })
    }

    /// Removes a container with its files. One that is gone is removed.
    pub(super) fn remove(&self, name: &str) -> Result<(), CallError> {
        let name = name.to_owned();
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let removed = self.call(|docker| async move { docker.remove_container(&name, Some(options)).await });
        match removed {
            Err(CallError::NotFound(_)) => Ok(()),
            answer => answer,
        }
    }

    /// All containers of a data directory, by the id of the sandbox.
    pub(super) fn list(&self, instance: &str) -> Result<HashMap<String, Seen>, IsolationError> {
        let label = format!("{}={instance}", shape::INSTANCE);
        let filters = HashMap::from([("label", vec![label])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let listed = self.call(|docker| async move { docker.list_containers(Some(options)).await });
        let listed = listed.map_err(|error| error.during("list the containers of the Docker engine"))?;
        let seen = |container: bollard::models::ContainerSummary| {
            let id = container.labels?.remove(shape::SANDBOX)?;
            let state = container.state;
            let paused = state == Some(ContainerSummaryStateEnum::PAUSED);
            Some((id, Seen { runs: paused || state == Some(ContainerSummaryStateEnum::RUNNING), paused }))
        };
        Ok(listed.into_iter().filter_map(seen).collect())
    }

    /// Makes a call on the thread that speaks HTTP, and waits for its answer.
    fn call<T: Send + 'static, F>(&self, call: impl FnOnce(Docker) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let docker = self.connected()?;
        self.wait(call(docker)).map_err(|error| self.told(error))
    }

    fn connected(&self) -> Result<Docker, CallError> {
        let mut connected = self.docker.lock();
        if let Some(docker) = &*connected {
            return Ok(docker.clone());
        }
        let socket = self.socket.to_string_lossy().into_owned();
        let docker = Docker::connect_with_unix(&socket, PATIENCE_S, API_DEFAULT_VERSION);
        let docker = docker.map_err(|error| self.told(error))?;
        let docker = self.wait(docker.negotiate_version()).map_err(|error| self.told(error))?;
        *connected = Some(docker.clone());
        Ok(docker)
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
                CallError::Away { socket: self.socket.clone(), source: Box::new(error) }
            }
            error => CallError::Failed(Box::new(error)),
        }
    }
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

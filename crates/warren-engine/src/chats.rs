//! The chat service's sandboxes: one for each chat, which lives for a fixed time and has the chat's
//! volume at `/workspace`.
//!
//! A chat's sandbox is an ordinary one. Its session's client is `chat:` and the chat's id, and the
//! session's metadata say which agent it was made for, so that nothing beside the catalog has to be
//! remembered over a restart.

mod volume;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use warren_core::catalog::SessionFilter;
use warren_core::{
    ErrorCode, Limits, Mount, MountAccess, OnExpiry, Owner, PageRequest, SandboxId, SandboxKind,
    SandboxRecord, SandboxSpec, SessionId, SessionRecord, Status,
};

use crate::admit::check_visible;
use crate::error::Field;
use crate::ports::finished;
use crate::state::Held;
use crate::{Access, Acquire, EngineError, NewSandbox, StoppedFiles};

/// Where the volume is in the sandbox.
const WORKSPACE: &str = "/workspace";
const AGENT: &str = "agent_id";
const VOLUME: &str = "volume_host_path";

/// A chat's sandbox, as the chat service asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatRequest {
    /// A lower-case uuid.
    pub chat: String,
    pub agent: String,
    /// Absolute; canonicalised and checked against the allowed mounts by the engine. Readable and
    /// writable at `/workspace`.
    pub volume: PathBuf,
}

/// A chat's sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatSandbox {
    pub session: SessionId,
    pub chat: String,
    pub agent: String,
    /// Where the volume really is.
    pub volume: PathBuf,
    pub sandbox: SandboxId,
    /// The port inside the sandbox on which its service answers; see [`crate::Sandbox::connect`].
    pub port: u16,
    pub status: Status,
    pub expires_unix_ms: u64,
}

/// The result of deleting a chat's sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatEnded {
    pub session: SessionId,
    pub sandbox: SandboxId,
}

/// Why a chat has no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The chat's sandbox is of another agent or volume.
    #[error("the chat has a sandbox with another agent or volume")]
    Conflict,
    #[error("the volume is outside the directories that may be mounted")]
    VolumeNotAllowed,
    #[error("the sandbox could not be started")]
    StartFailed(#[source] EngineError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ChatError {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Conflict => ErrorCode::SandboxConflict,
            Self::VolumeNotAllowed => ErrorCode::VolumeNotAllowed,
            Self::StartFailed(error) | Self::Engine(error) => error.code(),
        }
    }
}

/// The chats of the caller's owner.
#[derive(Debug, Clone)]
pub struct Chats {
    access: Access,
}

impl Access {
    pub fn chats(&self) -> Chats {
        Chats { access: self.clone() }
    }
}

impl Chats {
    /// The chat's sandbox: the one it has, if agent and volume are the same and its time is not
    /// over, else a fresh one. Calls for one chat are served one after the other, and one that was
    /// begun is finished whether or not the caller waits.
    pub async fn serve(&self, request: ChatRequest) -> Result<ChatSandbox, ChatError> {
        self.access.engine.may_change()?;
        check_chat(&request.chat)?;
        check_visible(Field::Agent, &request.agent, 200, "visible")?;
        let volume = self.access.engine.chat_volume(request.volume).await?;
        let request = ChatRequest { volume, ..request };
        finished(self.clone().serve_now(request)).await
    }

    /// Ends the chat's sandbox; `None` when it has none.
    pub async fn end(&self, chat: &str) -> Result<Option<ChatEnded>, ChatError> {
        self.access.engine.may_change()?;
        check_chat(chat)?;
        let _turn = self.turn(chat).await;
        let mut ended = None;
        for session in self.chat_sessions(chat).await? {
            let alive = self.destroy_chat(&session, &self.access.caller.name).await?;
            if alive && ended.is_none() {
                ended = Some(ChatEnded { session: session.id, sandbox: session.sandbox });
            }
        }
        Ok(ended)
    }

    async fn serve_now(self, request: ChatRequest) -> Result<ChatSandbox, ChatError> {
        let _turn = self.turn(&request.chat).await;
        for session in self.chat_sessions(&request.chat).await? {
            match self.current(&session).await? {
                Some(sandbox) if is_same(&session, &sandbox, &request) => {
                    return Ok(self.chat(&session, &self.awake(sandbox).await?, request));
                }
                Some(_) => return Err(ChatError::Conflict),
                None => {
                    self.destroy_chat(&session, "chat service: its time was over").await?;
                }
            }
        }
        let acquired = self
            .access
            .sessions()
            .acquire(self.chat_acquire(&request))
            .await
            .map_err(ChatError::StartFailed)?;
        Ok(self.chat(&acquired.session, &acquired.sandbox, request))
    }

    /// Calls for one chat take turns.
    async fn turn(&self, chat: &str) -> Held<(Owner, String)> {
        self.access.engine.shared.leases.chats.hold((self.access.owner().clone(), chat.to_owned())).await
    }

    /// The session's sandbox while it lives and its time is not over.
    async fn current(&self, session: &SessionRecord) -> Result<Option<SandboxRecord>, EngineError> {
        let sandbox = match self.access.sandbox(&session.sandbox).record().await {
            Ok(sandbox) => sandbox,
            Err(EngineError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let clock = self.access.engine.shared.parts.clock.as_ref();
        let usable = matches!(sandbox.status, Status::Creating | Status::Ready | Status::Paused);
        Ok(Some(sandbox).filter(|sandbox| usable && !sandbox.deadline.is_due(clock)))
    }

    /// A chat that is asked for is in use, so its sandbox does not rest.
    async fn awake(&self, sandbox: SandboxRecord) -> Result<SandboxRecord, EngineError> {
        match sandbox.status {
            Status::Paused => self.access.engine.set_going(&sandbox.owner, &sandbox.id).await,
            Status::Creating | Status::Ready | Status::Stopping | Status::Stopped | Status::Failed => {
                Ok(sandbox)
            }
        }
    }

    /// Says whether there was anything left of it.
    async fn destroy_chat(&self, session: &SessionRecord, by: &str) -> Result<bool, EngineError> {
        let live = self.current(session).await?.is_some();
        match self.access.engine.stop_by(by, &session.owner, &session.sandbox, StoppedFiles::Delete).await {
            Ok(_) | Err(EngineError::NotFound { .. }) => Ok(live),
            Err(error) => Err(error),
        }
    }

    /// The chat's open sessions, the newest first. There is one at most, unless the server ended at
    /// a bad moment.
    async fn chat_sessions(&self, chat: &str) -> Result<Vec<SessionRecord>, EngineError> {
        let filter = SessionFilter { client: Some(client(chat)), ..SessionFilter::default() };
        Ok(self.access.sessions().list(&filter, &PageRequest::default()).await?.items)
    }

    fn chat_acquire(&self, request: &ChatRequest) -> Acquire {
        let metadata = BTreeMap::from([
            (AGENT.to_owned(), request.agent.clone()),
            (VOLUME.to_owned(), request.volume.display().to_string().chars().take(250).collect()),
        ]);
        let acquire = Acquire::new(client(&request.chat), self.chat_spec(request));
        Acquire { fresh: true, metadata, ..acquire }
    }

    fn chat_spec(&self, request: &ChatRequest) -> NewSandbox {
        let settings = &self.access.engine.shared.settings;
        let mut spec = SandboxSpec::new(settings.template_of(SandboxKind::Terminal));
        spec.limits = Limits { lifetime_s: settings.chat_ttl_s, ..settings.default_limits.clone() };
        spec.network = self.access.engine.default_network();
        spec.env.clone_from(&settings.chat_env);
        spec.env.insert("AGENT_ID".to_owned(), request.agent.clone());
        spec.mounts = vec![Mount {
            source: request.volume.clone(),
            target: WORKSPACE.into(),
            access: MountAccess::ReadWrite,
        }];
        NewSandbox { on_expiry: OnExpiry::Delete, ..NewSandbox::new(spec) }
    }

    fn chat(&self, session: &SessionRecord, sandbox: &SandboxRecord, request: ChatRequest) -> ChatSandbox {
        ChatSandbox {
            session: session.id.clone(),
            chat: request.chat,
            agent: request.agent,
            volume: request.volume,
            sandbox: sandbox.id.clone(),
            port: self.access.engine.shared.settings.chat_port,
            status: sandbox.status,
            expires_unix_ms: sandbox.deadline.unix_ms,
        }
    }
}

/// Compares what the sandbox was made of; the session's metadata are for people to read.
fn is_same(session: &SessionRecord, sandbox: &SandboxRecord, request: &ChatRequest) -> bool {
    let volume = sandbox.spec.mounts.iter().find(|mount| mount.target == Path::new(WORKSPACE));
    session.metadata.get(AGENT) == Some(&request.agent)
        && volume.is_some_and(|mount| mount.source == request.volume)
}

fn client(chat: &str) -> String {
    format!("chat:{chat}")
}

fn check_chat(chat: &str) -> Result<(), EngineError> {
    // A session's id is a uuid behind a prefix, and knows what a uuid is.
    match format!("sess-{chat}").parse::<SessionId>() {
        Ok(_) => Ok(()),
        Err(_) => Err(EngineError::predicate(Field::Chat, "is not a lower-case uuid")),
    }
}

#[cfg(test)]
mod tests;

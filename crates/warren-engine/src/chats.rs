use std::path::PathBuf;

use warren_core::{Owner, SandboxId, SessionId};

use crate::{Engine, EngineError};

/// A chat's sandbox, as the chat service asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatRequest {
    /// A lower-case uuid.
    pub chat: String,
    pub agent: String,
    /// Absolute; canonicalised and checked against the allowed mounts by the engine.
    pub volume: PathBuf,
}

/// A chat's sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatSandbox {
    pub session: SessionId,
    pub chat: String,
    pub agent: String,
    pub volume: PathBuf,
    pub sandbox: SandboxId,
    /// Where the service in the sandbox answers.
    pub ip: String,
    pub port: u16,
    pub expires_unix_ms: u64,
}

/// What a delete found.
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

impl Engine {
    /// The chat's sandbox: the one it has, if agent and volume are the same and its time is not over, else a fresh one.
    /// Calls for one chat are served one after the other.
    pub async fn chat_sandbox(&self, owner: &Owner, request: ChatRequest) -> Result<ChatSandbox, ChatError> {
        unimplemented!()
    }

    /// Ends the chat's sandbox; `None` when it has none.
    pub async fn end_chat(
        &self,
        owner: &Owner,
        chat: &str,
        by: &str,
    ) -> Result<Option<ChatEnded>, ChatError> {
        unimplemented!()
    }
}

use std::sync::Arc;

use warren_core::{FileDeed, SandboxRecord};
use warren_engine::{EngineError, FileWork, Sandbox};
use warren_wire::guest::{ByteString, Detail, FileCall, FileEntry, FileOperation};

use super::path::Named;
use super::refusal::Refusal;
use crate::envd::Envd;
use crate::state::BY;

/// Extended attributes that clients know as a file's metadata.
pub(crate) const METADATA_PREFIX: &str = "user.e2b.";

/// A client that was admitted to one sandbox.
#[derive(Clone)]
pub(crate) struct Visitor {
    pub(crate) state: Envd,
    pub(crate) sandbox: Sandbox,
    /// The user they act as. Absent: the sandbox's default user.
    pub(crate) user: Option<ByteString>,
    /// The sandbox as it was at the door.
    pub(crate) record: Arc<SandboxRecord>,
}

impl Visitor {
    pub(super) fn new(state: &Envd, record: Arc<SandboxRecord>, user: Option<ByteString>) -> Self {
        let sandbox = state.engine_as(BY, &record.owner).sandbox(&record.id);
        Self { state: state.clone(), sandbox, user, record }
    }

    /// A call with root's rights in the user's name.
    pub(super) fn call(&self, operation: FileOperation) -> FileCall {
        FileCall { user: self.user.clone(), operation, as_root: Some(true) }
    }

    /// As the agent takes a path that a client wrote.
    pub(super) fn place(&self, named: Named) -> ByteString {
        let workdir = self.record.spec.workdir.as_ref();
        named.or(&workdir.map(|path| path.to_string_lossy()).unwrap_or_else(|| ".".into())).into()
    }

    /// The entry at a path, with everything that clients want to know of it.
    pub(super) async fn stat(&self, path: ByteString, follow: bool) -> Result<FileEntry, EngineError> {
        let operation = FileOperation::Stat { path, follow, detail: Some(detail()) };
        self.sandbox.files().stat(self.call(operation)).await
    }

    /// Begins one change for the client, made of any number of calls.
    pub(super) async fn begin(
        &self,
        deed: FileDeed,
        path: &ByteString,
        to: Option<&ByteString>,
    ) -> Result<FileWork, EngineError> {
        let to = to.map(ByteString::to_text);
        self.sandbox.files().begin(deed, &path.to_text(), to.as_deref()).await
    }

    /// Makes a change that has no answer of its own.
    pub(super) async fn change(&self, work: &FileWork, operation: FileOperation) -> Result<(), EngineError> {
        work.change(self.call(operation)).await
    }

    /// An error as clients that speak HTTP know it.
    pub(super) fn refusal(&self, error: EngineError) -> Refusal {
        if is_unknown_user(&error) {
            return Refusal::no_user(&self.user_name());
        }
        error.into()
    }

    /// The name of the user they act as, for messages.
    pub(crate) fn user_name(&self) -> String {
        self.user.as_ref().map(|user| user.to_text().into_owned()).unwrap_or_default()
    }
}

pub(super) fn detail() -> Detail {
    Detail { resolve: true, attributes: Some(METADATA_PREFIX.into()) }
}

/// True if the sandbox knows no such user.
pub(crate) fn is_unknown_user(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused(failure) if failure.is_unknown_user())
}

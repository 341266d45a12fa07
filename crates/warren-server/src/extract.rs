//! What handlers of `/v1` take out of a request, beside what those of every face do.

mod path;

pub(crate) use path::{
    AskPath, CodeContextPath, PortPath, ProcessPath, SandboxPath, SecretPath, SessionPath, SnapshotPath,
    TemplatePath, ToolPath,
};
pub(crate) use warren_face::extract::{IdempotencyKey, Json, JsonOrNothing, Params};

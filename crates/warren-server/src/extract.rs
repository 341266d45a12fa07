//! Extractors of `/v1`, beside those of every face.

mod path;

pub(crate) use path::{
    AskPath, CodeContextPath, PortPath, ProcessPath, SandboxPath, SecretPath, SessionPath, SnapshotPath,
    TemplatePath, ToolPath,
};
pub(crate) use warren_face::extract::{IdempotencyKey, Json, JsonOrNothing, Params};

//! Extractors of `/v1`, beside those of every face.

mod path;
mod word;

pub(crate) use path::{
    AskPath, CodeContextPath, EntryPath, PortPath, ProcessPath, SandboxPath, SecretPath, SessionPath,
    SnapshotPath, TemplatePath, ToolPath,
};
pub(crate) use warren_face::extract::{IdempotencyKey, Json, JsonOrNothing, Params};
pub(crate) use word::{point_in, sandbox_in, sandbox_param};

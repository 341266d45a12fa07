//! What handlers take out of a request. Whatever cannot be used is refused with the name of its field.

mod idempotency;
mod json;
mod params;
mod path;

pub(crate) use idempotency::IdempotencyKey;
pub(crate) use json::{Json, JsonOrNothing, no_json, says_json};
pub(crate) use params::Params;
pub(crate) use path::{
    AskPath, CodeContextPath, PortPath, ProcessPath, SandboxPath, SecretPath, SessionPath, SnapshotPath,
    TemplatePath, ToolPath,
};

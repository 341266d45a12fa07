//! The E2B protocol as data. Nothing here knows a sandbox: the server translates between these and the engine.

mod json;

pub mod filesystem;
pub mod process;
pub mod rest;
pub mod rpc;
pub mod signature;
pub mod timestamp;

/// The version of the in-sandbox protocol that is spoken.
pub const ENVD_VERSION: &str = "0.6.13";

/// The port of a sandbox on which that protocol is spoken. Nothing in the sandbox listens there: the server answers.
pub const ENVD_PORT: u16 = 49983;

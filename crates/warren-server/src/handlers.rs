//! One function per route: parse, ask the engine, convert. They are named in `routes`.

pub(crate) mod archives;
pub(crate) mod code;
pub(crate) mod default_sandbox;
pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod files;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod journal;
pub(crate) mod keys;
pub(crate) mod metrics;
pub(crate) mod network;
pub(crate) mod openapi;
pub(crate) mod ports;
pub(crate) mod processes;
pub(crate) mod recovery;
pub(crate) mod runs;
pub(crate) mod sandboxes;
pub(crate) mod secrets;
pub(crate) mod sessions;
pub(crate) mod snapshots;
pub(crate) mod stats;
pub(crate) mod stream;
pub(crate) mod templates;
pub(crate) mod tools;

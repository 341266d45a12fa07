//! The E2B protocol: agents that were written for E2B run here unchanged.
//!
//! `filesystem`, `process`, `rest`, `rpc`, `signature` and `timestamp` are the protocol as data:
//! nothing there knows a sandbox. The rest, behind the feature `face`, is the face that speaks it.
//! It has two halves. `control` is the REST interface that makes, finds and ends sandboxes. `envd`
//! is what a client says to one sandbox, at that sandbox's port 49983: nothing in the sandbox
//! listens there, the server answers. Both only translate: the engine does the work. What E2B knows
//! of a sandbox and the engine does not is in its [`Annotation`].

mod json;

pub mod filesystem;
pub mod process;
pub mod rest;
pub mod rpc;
pub mod signature;
pub mod timestamp;

#[cfg(feature = "face")]
mod annotation;
#[cfg(feature = "face")]
mod control;
#[cfg(feature = "face")]
mod envd;
#[cfg(feature = "face")]
mod error;
#[cfg(feature = "face")]
mod extract;
#[cfg(feature = "face")]
mod face;
#[cfg(feature = "face")]
mod logs;
#[cfg(feature = "face")]
mod metrics;
#[cfg(feature = "face")]
mod network;
#[cfg(feature = "face")]
mod page;
#[cfg(feature = "face")]
mod place;
#[cfg(feature = "face")]
mod routes;
#[cfg(feature = "face")]
mod samples;
#[cfg(feature = "face")]
mod shown;
#[cfg(feature = "face")]
mod state;
#[cfg(feature = "face")]
mod tables;
#[cfg(feature = "face")]
mod templates;
#[cfg(feature = "face")]
mod tokens;
#[cfg(feature = "face")]
mod wake;
#[cfg(feature = "face")]
pub use annotation::Annotation;
#[cfg(feature = "face")]
#[cfg(feature = "face")]
pub use envd::Envd;
#[cfg(feature = "face")]
pub use face::router;
#[cfg(feature = "face")]
pub use metrics::keep_sampling;
#[cfg(feature = "face")]
pub use place::Place;
#[cfg(feature = "face")]
pub use state::E2b;
#[cfg(feature = "face")]
pub use tables::{control_routes, envd_routes};
#[cfg(feature = "face")]
pub use tokens::is_traffic_token;

/// The version of the in-sandbox protocol that is spoken.
pub const ENVD_VERSION: &str = "0.6.13";

/// The port of a sandbox on which that protocol is spoken. Nothing in the sandbox listens there:
/// the server answers.
pub const ENVD_PORT: u16 = 49983;

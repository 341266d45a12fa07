//! Warren over HTTP.
//!
//! A request takes five steps: `listener` reads it within its limits, `auth` says who asks, `routes` names the handler, the handler
//! parses, asks the [`warren_engine::Engine`] and converts its answer, and `error` turns whatever went wrong into one kind of body.
//! A request for a port of a sandbox takes another way, through `proxy`. `serve` wires it all to the machine; `config` says how it
//! behaves.

mod app;
pub mod assembly;
mod auth;
mod backends;
mod chat;
mod code;
pub mod config;
mod convert;
mod e2b;
mod error;
mod extract;
mod fairness;
mod foreign;
mod handlers;
mod held;
mod keys;
mod limits;
mod listener;
mod logging;
mod metrics;
mod openapi;
mod proxy;
mod request_id;
mod routes;
mod serve;
mod server;
mod sse;
mod state;
mod stream;
mod tls;
mod transfer;
mod world;

pub use auth::KeyringError;
pub use backends::{BACKENDS, Backend, UnknownBackend};
pub use listener::Sockets;
pub use logging::subscriber as log_subscriber;
pub use proxy::LinkKeys;
pub use routes::{Access, Audience, Patience, Route, route_table};
pub use serve::{
    AnnouncedKey, Announcement, CrashAt, CrashAtError, E2bAddress, ServeError, ServeOptions, serve,
};
pub use server::{Server, ServerParts};
pub use tls::{Tls, TlsError, TlsFiles, init_tls};
pub use world::{MachineClock, MachineRandom};

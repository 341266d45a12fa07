//! Warren over HTTP.
//!
//! A request takes five steps: `listener` reads it within its limits, `auth` says who asks, `routes` names the handler, the handler
//! parses, asks the [`warren_engine::Engine`] and converts its answer, and `error` turns whatever went wrong into one kind of body.
//! A request for a port of a sandbox takes another way, through `proxy`. `serve` wires it all to the machine; `config` says how it
//! behaves.

mod app;
pub mod assembly;
mod backends;
mod chat;
pub mod config;
mod convert;
mod e2b;
mod extract;
mod handlers;
mod listener;
mod logging;
mod metrics;
mod openapi;
mod process_messages;
mod proxy;
mod routes;
mod serve;
mod server;
mod state;
mod stream;
mod tls;
mod world;

pub use backends::{BACKENDS, Backend, UnknownBackend};
pub use listener::Sockets;
pub use logging::subscriber as log_subscriber;
pub use routes::route_table;
pub use serve::{
    AnnouncedKey, Announcement, CrashAt, CrashAtError, E2bAddress, ServeError, ServeOptions, serve,
};
pub use server::{Server, ServerParts};
pub use tls::{Tls, TlsError, TlsFiles, init_tls};
pub use warren_face::auth::KeyringError;
pub use warren_face::link_keys::LinkKeys;
pub use warren_face::route::{Access, Audience, Patience, Route};
pub use world::{MachineClock, MachineRandom};

use warren_face::{auth, code, error, sse, transfer};

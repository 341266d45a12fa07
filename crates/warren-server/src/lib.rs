//! Warren over HTTP.
//!
//! A request takes five steps: `listener` reads it within its limits, [`warren_face::gate`] says
//! who asks, `routes` names the handler, the handler parses, asks the [`warren_engine::Engine`] and
//! converts its answer, and [`warren_face::error`] turns whatever went wrong into one kind of body.
//! A request for a port of a sandbox takes another way, through `proxy`, and one of E2B's protocol
//! goes to [`warren_e2b`]. `serve` wires it all to the machine; `config` says how it behaves.

mod app;
pub mod assembly;
mod backends;
mod chat;
pub mod config;
mod convert;
mod extract;
mod faces;
mod handlers;
mod listener;
mod live;
mod logging;
mod metrics;
mod openapi;
mod port_book;
pub mod private_file;
mod process_messages;
mod proxy;
mod routes;
mod serve;
mod server;
mod state;
mod stream;
mod tls;
mod world;

pub use backends::{BACKENDS, Backend, ExaminedMachine, LxdPlace, UnknownBackend};
pub use faces::{Face, faces};
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
pub use warren_face::time::rfc3339;
pub use world::{MachineClock, MachineRandom};

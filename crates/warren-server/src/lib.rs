//! Warren over HTTP.
//!
//! A request takes five steps: `listener` reads it within its limits, `auth` says who asks, `routes` names the handler, the handler
//! parses, asks the [`warren_engine::Engine`] and converts its answer, and `error` turns whatever went wrong into one kind of body.
//! `serve` wires it all to the machine; `config` says how it behaves.

mod app;
mod auth;
mod config;
mod error;
mod logging;
mod metrics;
mod request_id;
mod routes;
mod state;

pub use config::{Config, ConfigError};

//! The service from outside: a real listener, with fakes behind the engine's ports.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

mod auth;
mod bodies;
mod chat;
mod code;
mod config;
mod contract;
mod e2b;
mod events;
mod exec;
mod faces;
mod files;
mod foreign;
mod former_names;
mod golden;
mod journal;
mod keys;
mod limits;
mod mcp;
mod metrics;
mod names;
mod network;
mod overview;
mod ports;
mod processes;
mod routes;
mod sandboxes;
mod secrets;
mod sessions;
mod stream;
mod support;
mod tools;
mod travel;
mod walls;

//! The service from outside: a real listener, with fakes behind the engine's ports.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

mod auth;
mod config;
mod exec;
mod files;
mod keys;
mod limits;
mod metrics;
mod processes;
mod stream;
mod support;

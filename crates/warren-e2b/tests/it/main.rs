//! The protocol from outside: what is written can be read, and what cannot be read does no harm.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

mod arbitrary;
mod golden;
mod properties;

//! The Model Context Protocol: agents use a sandbox through tools, read what is in it as resources,
//! and take back what they did.
//!
//! `/mcp` is for all sandboxes of a key's owner, `/mcp/{sandbox}` for one of them, and
//! `/mcp/{sandbox}/browser` for its browser. The protocol's
//! framing is `rmcp`'s; nothing is remembered from one request to the next, neither for clients of
//! the revision without sessions nor for older ones, so that a restart of the server is no event
//! for them. This face only translates: `request` reads what a request says of its caller and
//! place, `tools` has the table of tools and the work of each, and `answer` is the form of results.

mod answer;
mod browser;
mod face;
mod fields;
mod handler;
mod plain;
mod prompts;
mod request;
mod resources;
mod routes;
mod state;
mod tasks;
mod tools;
mod toolset;
mod uri;

pub use face::router;
pub use routes::routes;
pub use state::Mcp;

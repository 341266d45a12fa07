//! Where sandboxes may go: what is allowed, how that is changed while they run, and what they did with it.
//!
//! ```text
//! callers ──► change ──► driver ──► Networks::set, record, Networks::set
//! Networks ──► sightings ─┬─► log (what it did, numbered)
//!                         ├─► asks (what somebody has to answer) ──► change
//!                         ├─► reached (what it needs) ──► catalog
//!                         └─► news (events, few of them) ──► events
//! ```
//!
//! The record says what holds. Before it is written the link obeys both policies, the old and the new one, so that a crash at any
//! moment leaves a link that is never looser than the record.

mod admit;
mod asks;
mod census;
mod change;
mod log;
mod news;
mod reached;
mod sightings;
mod smallest;

use std::net::IpAddr;

use warren_core::{NetworkEntry, NetworkPolicy, NetworkRule, NetworkUsage};

pub use self::census::NetworkCensus;
pub(crate) use self::change::NetworkChange;
pub use self::change::SandboxNetwork;
pub use self::log::NetworkStream;
pub(crate) use self::sightings::Sightings;

/// How a sandbox is linked to the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkView {
    pub policy: NetworkPolicy,
    /// Its own addresses. Empty without a link.
    pub addresses: Vec<IpAddr>,
    /// What went over its link. Absent without one.
    pub usage: Option<NetworkUsage>,
    /// How much waits for somebody's answer.
    pub pending: usize,
}

/// Something that a sandbox did or tried, as its log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSighting {
    /// Grows by one with every entry of the sandbox, and leaps at a start of the engine.
    pub number: u64,
    pub at_unix_ms: u64,
    pub entry: NetworkEntry,
}

/// Something that a sandbox waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkAsk {
    /// What to answer it by.
    pub number: u64,
    pub asked_unix_ms: u64,
    /// When it is forgotten unless it is asked again. Whoever tried gives up before that.
    pub expires_unix_ms: u64,
    /// What an answer allows or denies.
    pub rule: NetworkRule,
    /// What was tried, and how often.
    pub entry: NetworkEntry,
}

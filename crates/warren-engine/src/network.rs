//! Where sandboxes may go: what is allowed, how that is changed while they run, and what they did
//! with it.
//!
//! ```text
//! callers ──► change ──► driver ──► Networks::set, record, Networks::set
//! Networks ──► sightings ─┬─► log (what it did, numbered)
//!                         ├─► asks (what somebody has to answer) ──► change
//!                         ├─► reached (what it needs) ──► catalog
//!                         └─► news (events, few of them) ──► events
//! ```
//!
//! The record says what holds. Before it is written the link obeys both policies, the old and the
//! new one, so that a crash at any moment leaves a link that is never looser than the record.

mod asks;
mod census;
mod change;
mod log;
mod reached;
mod sightings;
mod smallest;

use std::net::IpAddr;

use warren_core::{NetworkPolicy, NetworkUsage};

pub use self::census::NetworkCensus;
pub use self::change::SandboxNetwork;
pub use self::log::NetworkStream;

/// How a sandbox is linked to the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkView {
    pub policy: NetworkPolicy,
    /// Its own addresses. Empty without a link.
    pub addresses: Vec<IpAddr>,
    /// The traffic of its link. Absent without one.
    pub usage: Option<NetworkUsage>,
    /// How much waits for somebody's answer.
    pub pending: usize,
}

//! The kernel's rules: one table of our own per block, changed only by whole transactions over
//! netlink.
//!
//! [`Table::install`] puts down the chains and rules, which are the same however many sandboxes
//! there are; [`Table::put`] adds or replaces the elements of one link. Other tables of the machine
//! are neither read nor touched. Where the kernel can, the table belongs to this process: nobody
//! else changes or flushes it, and it stays when the process dies.

mod element;
mod expr;
mod inside;
mod phrase;
mod read;
mod ruleset;
mod set;
mod table;
#[cfg(test)]
mod tests;
mod wire;

use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

use warren_core::network::Cidr;

use crate::netlink::NetlinkError;
use crate::rules::{Reach, Rules};

pub(crate) use inside::confine;
pub(crate) use ruleset::TOLD_LIMIT;
pub(crate) use table::{Hold, Imprint, Table, tables};

/// The bits of a packet's mark that are ours. Of sandboxes' packets only those with one of them may
/// be routed.
pub(crate) const MARK_MASK: u32 = 0x3000;

/// Where refused packets of a block are told (`NFLOG`).
pub(crate) fn log_group(block: u8) -> u16 {
    0x7760 + u16::from(block)
}

/// The parts of the rules that do not depend on links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skeleton {
    /// The addresses of all sandboxes of this machine: closed to each other, whatever is excepted.
    pub(crate) subnets: Vec<Cidr>,
    pub(crate) dns: Listener,
    pub(crate) egress: Listener,
    /// Exceptions from the closed ranges and from the host itself.
    pub(crate) exceptions: Reach,
}

/// Where a proxy listens. Without IPv6, such packets to it are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) v4: SocketAddrV4,
    pub(crate) v6: Option<SocketAddrV6>,
}

impl Listener {
    fn addresses(self) -> impl Iterator<Item = SocketAddr> {
        [Some(SocketAddr::V4(self.v4)), self.v6.map(SocketAddr::V6)].into_iter().flatten()
    }
}

/// One link, and what may pass it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkRules {
    /// The name of the host's end.
    pub(crate) link: String,
    /// The sandbox's end, and its addresses: nothing else is taken from this link.
    pub(crate) mac: [u8; 6],
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) rules: Rules,
}

/// Why a table could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// Another process has this block.
    #[error("the table is taken")]
    Taken,
    #[error("there is no such table")]
    Absent,
    #[error("claim a table of nftables")]
    Kernel(#[source] NetlinkError),
}

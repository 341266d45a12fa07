//! Warren's network: how a sandbox reaches the world, and how it is kept from the rest of it.
//!
//! ```text
//!   sandbox's namespace          host's namespace
//!   eth0 ── veth pair ── wrnB-NNNN ──► nftables table `warren-B`
//!                                        │ direct: forwarded, masqueraded
//!                                        │ watched: redirected to the egress proxy
//!                                        │ questions (port 53): redirected to the DNS proxy
//!                                        └ closed: refused at once, and told
//! ```
//!
//! The kernel decides by address, the proxies by name. Whatever fails, or is not there yet, is
//! closed.

mod book;
mod budget;
mod ca;
mod claims;
mod dial;
mod dns;
mod domain;
mod edge;
mod egress;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod heads;
mod host;
mod lease;
mod ledger;
mod links;
mod managers;
mod namespace;
mod netlink;
mod nft;
mod numbers;
mod pins;
mod place;
mod probe;
mod process;
mod refusals;
mod report;
mod rules;
mod stock;
#[cfg(test)]
#[path = "tests/world.rs"]
mod world;

pub use self::book::Figures;
pub use self::ca::{Authority, AuthorityError, environment};
pub use self::claims::{ClaimError, DomainKind};
pub use self::host::{HostNetwork, NetworkOptions, OpenError};

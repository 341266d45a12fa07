//! Warren's network: how a sandbox reaches the world, and how it is kept from the rest of it.
//!
//! ```text
//!   sandbox's namespace          host's namespace
//!   eth0 ── veth pair ── wrnB-NNNN ──► nftables table `warren-B`
//!                                        │ direct: forwarded, masqueraded
//!                                        │ watched: redirected to the egress proxy, which dials by itself
//!                                        │ questions (port 53): redirected to the DNS proxy
//!                                        └ closed: refused at once, and told
//! ```
//!
//! The kernel decides by address, the proxies by name. Whatever fails, or is not there yet, is closed.

#![expect(dead_code, reason = "the parts that use it are being put together")]

mod book;
mod ca;
mod dns;
mod edge;
mod links;
mod namespace;
mod netlink;
mod pins;
mod place;
mod rules;
mod services;
#[cfg(test)]
mod world;

pub use self::book::Figures;
pub use self::ca::{Authority, AuthorityError, environment};

//! Links, addresses, routes, routing rules and queues, as the kernel is told of them.
//!
//! ```text
//!   host                                             sandbox
//!   wrnB-NNNN  169.254.77.1/32, fe80::77:1     ══    eth0  10.213.x.y/32, default via 169.254.77.1
//!   route to 10.213.x.y/32                           both know the other's hardware address
//! ```

mod flows;
mod guard;
mod guest;
mod queues;
mod routes;
mod veth;

pub(crate) use flows::forget;
pub(crate) use guard::{Guard, lift};
pub(crate) use guest::{find_namespace, found, settle};
pub(crate) use queues::shape;
pub(crate) use routes::{RouteKind, has_default_v6, own_addresses, route_kind};
pub(crate) use veth::{FoundLink, create, describe, find, list, remove, traffic};

use std::net::IpAddr;

/// The name of a link's end in the sandbox.
pub(crate) const INSIDE: &str = veth::INSIDE;

/// The protocol family's number in headers of requests.
fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 2,
        IpAddr::V6(_) => 10,
    }
}

/// All bits of an address.
fn whole(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;

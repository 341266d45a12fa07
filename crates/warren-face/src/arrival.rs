//! How a request came in. The listener writes it down with the request.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::Request;
use http::Extensions;
use warren_core::Owner;

/// How a request came to us.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrival {
    pub address: Option<IpAddr>,
    /// Over TLS.
    pub secure: bool,
    pub door: Door,
}

/// The listener that a request came to. Ports of sandboxes are behind every one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Door {
    #[default]
    Main,
    /// Behind it everything else is the E2B protocol's.
    E2b,
}

impl Arrival {
    /// As the listener wrote it down.
    pub fn of(request: &Request) -> Self {
        request.extensions().get().copied().unwrap_or_default()
    }
}

/// Where a request came from: one IPv4 address, or one IPv6 network, whose addresses cost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

impl Peer {
    pub fn new(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
            address => Self(address),
        }
    }

    /// As the listener wrote it down.
    pub fn of(request: &Request) -> Option<Self> {
        request.extensions().get().copied()
    }
}

/// Tells the listener whose connection a request came over, so that it is no stranger's any more.
#[derive(Clone)]
pub struct OwnerNotice(Arc<dyn Fn(&Owner) + Send + Sync>);

impl OwnerNotice {
    pub fn new(meet: impl Fn(&Owner) + Send + Sync + 'static) -> Self {
        Self(Arc::new(meet))
    }

    /// A request has shown that it comes from somebody whom this owner lets in.
    pub fn of(extensions: &Extensions, owner: &Owner) {
        if let Some(Self(meet)) = extensions.get() {
            meet(owner);
        }
    }
}

impl fmt::Debug for OwnerNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerNotice").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let peers = ["2001:db8::1", "2001:db8::ffff:1"].map(|text| Peer::new(text.parse().unwrap()));
        assert_eq!(peers[0], peers[1]);
        assert_eq!(Peer::new("::ffff:10.0.0.1".parse().unwrap()), Peer::new("10.0.0.1".parse().unwrap()));
    }
}

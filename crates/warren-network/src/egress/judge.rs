//! Decides about a connection by what is known of it. Looks things up, and waits for nothing.

use std::net::{IpAddr, SocketAddr};

use warren_core::HostName;
use warren_core::network::{Decision, NetworkMode, NetworkPolicy, NetworkRule, Protocol, Why, Wish};

use crate::book::{Book, Guest};
use crate::place::{GATEWAY, GATEWAY_V6};

/// Where a connection was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// To the gateway, which is what a name is answered with that is not open, or not yet.
    Gateway,
    Address(IpAddr),
}

/// The decision about a connection with a name, or without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed(Why),
    /// The name may be reached; its addresses have to be found out first.
    Unproven(Why),
    Denied(Why),
    Ask,
}

/// The decision by address alone, before a byte is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AddressVerdict {
    /// No name can make it better.
    Closed(Why),
    /// No name can make it worse.
    Open(Why),
    /// It depends on the name. What becomes of it where none is given:
    ByName(Verdict),
}

/// Why a connection was let through, to see later whether it still would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Basis {
    /// It said its name, and goes to one of the name's addresses.
    Name(HostName, IpAddr),
    /// It says no name. These are the ones its address was answered for.
    Address(IpAddr, Vec<HostName>),
}

/// Looks at one sandbox's policies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judge<'a> {
    pub(crate) book: &'a Book,
    pub(crate) guest: &'a Guest,
    pub(crate) port: u16,
}

impl Goal {
    pub(crate) fn of(destination: SocketAddr) -> Self {
        let address = destination.ip().to_canonical();
        let is_gateway = address == IpAddr::V4(GATEWAY) || address == IpAddr::V6(GATEWAY_V6);
        if is_gateway { Self::Gateway } else { Self::Address(address) }
    }

    pub(crate) fn address(self) -> Option<IpAddr> {
        match self {
            Self::Gateway => None,
            Self::Address(address) => Some(address),
        }
    }
}

impl Judge<'_> {
    /// Decides by the address alone.
    pub(crate) fn address_only(self, goal: Goal) -> AddressVerdict {
        let Goal::Address(address) = goal else {
            return AddressVerdict::ByName(self.nameless(goal));
        };
        match self.decide(None, Some(address)) {
            Decision::Allowed(why) if !self.names_matter() => AddressVerdict::Open(why),
            Decision::Denied(why @ (Why::Closed(_) | Why::Host | Why::Deny(_) | Why::Mode(_))) => {
                AddressVerdict::Closed(why)
            }
            Decision::Allowed(_) | Decision::Denied(_) | Decision::Ask => {
                AddressVerdict::ByName(self.nameless(goal))
            }
        }
    }

    /// Decides about a connection that says this name.
    pub(crate) fn named(self, goal: Goal, name: &HostName) -> Verdict {
        let verdict = match self.decide(Some(name), goal.address()) {
            Decision::Denied(why) => return Verdict::Denied(why),
            Decision::Ask => Verdict::Ask,
            Decision::Allowed(why) => Verdict::Allowed(why),
        };
        let is_proven = goal.address().is_some_and(|address| self.guest.pins.holds(name, address));
        match verdict {
            Verdict::Allowed(why) if !is_proven => {
                self.opened_by_address(goal).unwrap_or(Verdict::Unproven(why))
            }
            Verdict::Ask if !is_proven => self.opened_by_address(goal).unwrap_or(Verdict::Ask),
            verdict => verdict,
        }
    }

    /// Decides about a connection that says no name, as most do that are neither HTTP nor TLS: one
    /// of the names that its address was answered for must be allowed, and none denied.
    pub(crate) fn nameless(self, goal: Goal) -> Verdict {
        let Goal::Address(address) = goal else { return Verdict::Denied(Why::NoName) };
        self.by_names(address, &self.guest.pins.names(address))
    }

    /// Decides about a connection that should say a name and does not.
    pub(crate) fn unnamed(self, goal: Goal) -> Verdict {
        match self.by_address(goal) {
            Some(Decision::Allowed(why)) => Verdict::Allowed(why),
            Some(Decision::Ask) => Verdict::Ask,
            Some(Decision::Denied(Why::NotListed)) | None => Verdict::Denied(Why::NoName),
            Some(Decision::Denied(why)) => Verdict::Denied(why),
        }
    }

    /// Decides about a connection that says an address in place of a name. If it goes to another
    /// address, that counts as no name.
    pub(crate) fn literal(self, goal: Goal, said: IpAddr) -> Verdict {
        match self.decide(None, Some(said)) {
            Decision::Denied(why @ (Why::Closed(_) | Why::Deny(_))) => Verdict::Denied(why),
            Decision::Denied(why) if goal == Goal::Address(said) => Verdict::Denied(why),
            Decision::Denied(_) | Decision::Allowed(_) | Decision::Ask => self.unnamed(goal),
        }
    }

    /// True if a connection that was let through once would be let through now.
    pub(crate) fn still_allows(self, basis: &Basis) -> bool {
        match basis {
            Basis::Name(name, address) => {
                matches!(self.decide(Some(name), Some(*address)), Decision::Allowed(_))
            }
            Basis::Address(address, names) => matches!(self.by_names(*address, names), Verdict::Allowed(_)),
        }
    }

    /// True if allowed connections are reported too.
    pub(crate) fn tells_all(self) -> bool {
        self.policies(|policy| !matches!(policy.mode, NetworkMode::None | NetworkMode::Public))
    }

    /// True if nothing is open any more, not even to be judged.
    pub(crate) fn is_shut(self) -> bool {
        self.policies(NetworkPolicy::is_none)
    }

    /// True if the names of open targets are wanted.
    pub(crate) fn learns(self) -> bool {
        self.policies(|policy| policy.mode == NetworkMode::Learn)
    }

    /// When, in milliseconds since 1970, time alone will change something.
    pub(crate) fn next_change(self, now_unix_ms: u64) -> Option<u64> {
        let policies = self.guest.policies.borrow();
        let ends = policies.iter().flat_map(|policy| &policy.grants).filter_map(|grant| grant.until_unix_ms);
        ends.filter(|end| *end > now_unix_ms).min()
    }

    fn by_names(self, address: IpAddr, names: &[HostName]) -> Verdict {
        let mut verdict = match self.decide(None, Some(address)) {
            Decision::Allowed(why) => Verdict::Allowed(why),
            Decision::Ask => Verdict::Ask,
            Decision::Denied(why) => Verdict::Denied(why),
        };
        for name in names {
            match self.decide(Some(name), Some(address)) {
                Decision::Denied(why @ Why::Deny(_)) => return Verdict::Denied(why),
                Decision::Allowed(why) => verdict = Verdict::Allowed(why),
                Decision::Denied(_) | Decision::Ask => {}
            }
        }
        verdict
    }

    /// Open whatever the name, which was not denied.
    fn opened_by_address(self, goal: Goal) -> Option<Verdict> {
        match self.by_address(goal)? {
            Decision::Allowed(why) => Some(Verdict::Allowed(why)),
            Decision::Denied(_) | Decision::Ask => None,
        }
    }

    fn by_address(self, goal: Goal) -> Option<Decision> {
        goal.address().map(|address| self.decide(None, Some(address)))
    }

    /// True if a name could close what the address opens, or has to be known for another reason.
    fn names_matter(self) -> bool {
        let closes = |policy: &NetworkPolicy| policy.denials().any(NetworkRule::is_by_name);
        self.policies(|policy| closes(policy) || !policy.secrets.is_empty())
    }

    fn policies(self, holds: impl Fn(&NetworkPolicy) -> bool) -> bool {
        self.guest.policies.borrow().iter().any(holds)
    }

    fn decide(self, name: Option<&HostName>, address: Option<IpAddr>) -> Decision {
        self.book.decide(self.guest, &Wish { protocol: Protocol::Tcp, name, address, port: self.port })
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;

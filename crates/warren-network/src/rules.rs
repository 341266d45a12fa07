//! From policies to what the kernel is told. Pure: the same policies at the same time give the same
//! rules.
//!
//! The kernel knows addresses and ports only. What a name decides, a proxy decides, so TCP under
//! such a policy is *watched*: redirected to the proxy. UDP and ICMP are the kernel's alone, under
//! every policy.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warren_core::network::{Cidr, GrantEffect, NetworkLimits, NetworkPolicy, NetworkRule, Ports, Target};

/// The rights of one sandbox, as the kernel sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) class: Class,
    /// The targets of UDP and ICMP that are open where the class is `WatchedClosed`; other classes
    /// do not use it.
    pub(crate) opened: Reach,
    /// Closed in every class, whatever opens it. Under `Direct` this is for TCP too.
    pub(crate) denied: Reach,
    pub(crate) limits: NetworkLimits,
}

/// How connections are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Forwarded by the kernel alone: everything but what is denied.
    Direct,
    /// TCP goes through the proxy, the rest is open but for what is denied.
    WatchedOpen,
    /// TCP goes through the proxy, the rest is closed but for what is opened.
    WatchedClosed,
}

/// Networks and ports, none of which overlaps another, in order: the kernel's sets take nothing
/// else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// For protocols with ports.
    pub(crate) ports: Vec<(Cidr, Ports)>,
    /// For ICMP, which has none.
    pub(crate) whole: Vec<Cidr>,
}

/// More than this is not told to the kernel: what is not opened stays closed.
const MOST_OPENED: usize = 2048;
const EVERY_PORT: Ports = Ports { first: 0, last: u16::MAX };

/// Part of a policy: a network and its ports, or all of it.
type Stretch = (Cidr, Option<Ports>);

impl Rules {
    /// Every policy must allow what is open. Without any, nothing is.
    pub(crate) fn of(policies: &[NetworkPolicy], now_unix_ms: u64) -> Self {
        Self {
            class: class(policies),
            opened: Reach::opened(&common(policies, now_unix_ms)),
            denied: Reach::denied(&denied(policies, now_unix_ms)),
            limits: limits(policies),
        }
    }
}

/// When these policies next mean something else by themselves, because a grant of theirs is over.
pub(crate) fn next_change(policies: &[NetworkPolicy], now_unix_ms: u64) -> Option<u64> {
    let grants = policies.iter().flat_map(|policy| &policy.grants);
    grants.filter_map(|grant| grant.until_unix_ms).filter(|until| *until > now_unix_ms).min()
}

fn class(policies: &[NetworkPolicy]) -> Class {
    if policies.is_empty() || !policies.iter().all(NetworkPolicy::is_open) {
        Class::WatchedClosed
    } else if policies.iter().any(NetworkPolicy::needs_names) {
        Class::WatchedOpen
    } else {
        Class::Direct
    }
}

/// The targets that all of the policies open.
fn common(policies: &[NetworkPolicy], now_unix_ms: u64) -> Vec<Stretch> {
    let Some((first, rest)) = policies.split_first() else { return Vec::new() };
    let mut common = opened(first, now_unix_ms);
    for policy in rest {
        let other = opened(policy, now_unix_ms);
        let pairs = common.iter().flat_map(|one| other.iter().filter_map(|two| meet(*one, *two)));
        let mut met: Vec<Stretch> = pairs.collect();
        met.sort_unstable();
        met.dedup();
        met.truncate(MOST_OPENED);
        common = met;
    }
    common
}

fn opened(policy: &NetworkPolicy, now_unix_ms: u64) -> Vec<Stretch> {
    if policy.is_none() {
        return Vec::new();
    }
    if policy.is_open() {
        return everything().map(|network| (network, None)).to_vec();
    }
    policy.openings(now_unix_ms).flat_map(stretches).take(MOST_OPENED).collect()
}

/// One that denies for a while denies until then: the kernel is told again when it is over.
fn denied(policies: &[NetworkPolicy], now_unix_ms: u64) -> Vec<Stretch> {
    let rules = policies.iter().flat_map(|policy| {
        let grants = policy.grants.iter();
        let holding = grants.filter(|grant| grant.effect == GrantEffect::Deny && grant.holds(now_unix_ms));
        policy.deny.iter().chain(holding.map(|grant| &grant.rule))
    });
    rules.flat_map(stretches).collect()
}

fn limits(policies: &[NetworkPolicy]) -> NetworkLimits {
    let all = policies.iter().map(|policy| policy.limits);
    let least = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
    let tightest = all.reduce(|one, two| NetworkLimits {
        connections: one.connections.min(two.connections),
        new_connections_per_s: one.new_connections_per_s.min(two.new_connections_per_s),
        down_bytes_per_s: least(one.down_bytes_per_s, two.down_bytes_per_s),
        up_bytes_per_s: least(one.up_bytes_per_s, two.up_bytes_per_s),
    });
    tightest.unwrap_or_default()
}

/// The part of a rule that the kernel can check: none, if it is about a name.
fn stretches(rule: &NetworkRule) -> Vec<Stretch> {
    match &rule.target {
        Target::Any => everything().map(|network| (network, rule.ports)).to_vec(),
        Target::Network(network) => vec![(*network, rule.ports)],
        Target::Name(_) | Target::Below(_) => Vec::new(),
    }
}

fn everything() -> [Cidr; 2] {
    let whole = |address: IpAddr| Cidr::new(address, 0).expect("no bit is set");
    [whole(Ipv4Addr::UNSPECIFIED.into()), whole(Ipv6Addr::UNSPECIFIED.into())]
}

/// The overlap of two stretches.
fn meet(one: Stretch, two: Stretch) -> Option<Stretch> {
    let network = if holds(one.0, two.0) {
        two.0
    } else if holds(two.0, one.0) {
        one.0
    } else {
        return None;
    };
    let ports = match (one.1, two.1) {
        (None, ports) | (ports, None) => ports,
        (Some(one), Some(two)) => {
            let both = Ports { first: one.first.max(two.first), last: one.last.min(two.last) };
            Some(both).filter(|both| both.first <= both.last)?.into()
        }
    };
    Some((network, ports))
}

/// True if one network lies within another, or equals it.
fn holds(outer: Cidr, inner: Cidr) -> bool {
    outer.address().is_ipv4() == inner.address().is_ipv4()
        && outer.prefix() <= inner.prefix()
        && outer.contains(inner.address())
}

impl Reach {
    /// The targets that rules name by address.
    pub(crate) fn of(rules: &[NetworkRule]) -> Self {
        Self::opened(&rules.iter().flat_map(stretches).collect::<Vec<_>>())
    }

    /// A protocol without ports is opened by a rule that names no ports.
    fn opened(stretches: &[Stretch]) -> Self {
        let whole = stretches.iter().filter(|(_, ports)| ports.is_none()).map(|(network, _)| *network);
        Self { ports: apart(stretches), whole: outermost(whole.collect()) }
    }

    /// A protocol without ports is denied by a rule that names any part of it.
    fn denied(stretches: &[Stretch]) -> Self {
        let whole = stretches.iter().map(|(network, _)| *network);
        Self { ports: apart(stretches), whole: outermost(whole.collect()) }
    }
}

/// Networks that lie in no other of these.
fn outermost(mut networks: Vec<Cidr>) -> Vec<Cidr> {
    networks.sort_unstable_by_key(|network| (network.prefix(), network.address()));
    networks.dedup();
    let mut kept: Vec<Cidr> = Vec::new();
    for network in networks {
        if !kept.iter().any(|outer| holds(*outer, network)) {
            kept.push(network);
        }
    }
    kept
}

/// The same, without overlap. Networks either lie within each other or apart, so each one needs
/// only the ports that those around it leave over.
fn apart(stretches: &[Stretch]) -> Vec<(Cidr, Ports)> {
    let mut by_network: BTreeMap<(u8, IpAddr), (Cidr, Vec<Ports>)> = BTreeMap::new();
    for (network, ports) in stretches {
        let key = (network.prefix(), network.address());
        by_network.entry(key).or_insert((*network, Vec::new())).1.push(ports.unwrap_or(EVERY_PORT));
    }
    let mut placed: Vec<(Cidr, Ports)> = Vec::new();
    // Short prefixes come first: whatever lies around a network is placed before it.
    for (network, ports) in by_network.into_values() {
        let around: Vec<Ports> =
            placed.iter().filter(|(outer, _)| holds(*outer, network)).map(|(_, ports)| *ports).collect();
        placed.extend(without(united(ports), &united(around)).into_iter().map(|ports| (network, ports)));
    }
    placed
}

/// In order, and joined where they touch.
fn united(mut ports: Vec<Ports>) -> Vec<Ports> {
    ports.sort_unstable();
    let mut joined: Vec<Ports> = Vec::new();
    for next in ports {
        match joined.last_mut() {
            Some(last) if next.first <= last.last.saturating_add(1) => last.last = last.last.max(next.last),
            _ => joined.push(next),
        }
    }
    joined
}

/// Both are in order.
fn without(ports: Vec<Ports>, taken: &[Ports]) -> Vec<Ports> {
    let mut left = ports;
    for hole in taken {
        left = left.into_iter().flat_map(|ports| cut(ports, *hole)).collect();
    }
    left
}

fn cut(ports: Ports, hole: Ports) -> impl Iterator<Item = Ports> {
    if hole.last < ports.first || ports.last < hole.first {
        return [Some(ports), None].into_iter().flatten();
    }
    let before = (ports.first < hole.first).then(|| Ports { last: hole.first - 1, ..ports });
    let after = (hole.last < ports.last).then(|| Ports { first: hole.last + 1, ..ports });
    [before, after].into_iter().flatten()
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;

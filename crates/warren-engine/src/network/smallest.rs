//! The smallest policy for what was reached. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use warren_core::network::{Cidr, Destination, Ports, Target};
use warren_core::{Host, HostName, NetworkMode, NetworkPolicy, NetworkRule};

/// So many names below the same one are taken for all of them.
const MANY: usize = 3;

/// A policy that allows these and next to nothing else: names with their ports, addresses where no
/// name is known, and a wildcard where at least three names below the same one were reached at the
/// same ports.
pub(super) fn smallest(reached: &BTreeSet<Destination>) -> NetworkPolicy {
    let mut names: BTreeMap<HostName, BTreeSet<u16>> = BTreeMap::new();
    let mut addresses: BTreeMap<IpAddr, BTreeSet<u16>> = BTreeMap::new();
    for Destination { host, port } in reached {
        match host {
            Host::Name(name) => names.entry(name.clone()).or_default().insert(*port),
            Host::Address(address) => addresses.entry(*address).or_default().insert(*port),
        };
    }
    let parents = parents_of_many(&names);
    let mut allow: Vec<NetworkRule> = Vec::new();
    for (parent, ports) in &parents {
        extend(&mut allow, &Target::Below(parent.clone()), ports);
    }
    for (name, ports) in &names {
        if parent_of(name).is_none_or(|parent| parents.get(&parent) != Some(ports)) {
            extend(&mut allow, &Target::Name(name.clone()), ports);
        }
    }
    for (address, ports) in &addresses {
        extend(&mut allow, &Target::Network(Cidr::single(*address)), ports);
    }
    NetworkPolicy { allow, ..NetworkPolicy::of(NetworkMode::Allow) }
}

/// Names with at least so many below them that were reached at the very same ports.
fn parents_of_many(names: &BTreeMap<HostName, BTreeSet<u16>>) -> BTreeMap<HostName, BTreeSet<u16>> {
    let mut below: BTreeMap<(HostName, &BTreeSet<u16>), usize> = BTreeMap::new();
    for (name, ports) in names {
        if let Some(parent) = parent_of(name) {
            *below.entry((parent, ports)).or_default() += 1;
        }
    }
    let many = below.into_iter().filter(|(_, count)| *count >= MANY);
    many.map(|((parent, ports), _)| (parent, ports.clone())).collect()
}

/// The name above this one, unless anybody may have a name below it: `com`, `co.uk`.
fn parent_of(name: &HostName) -> Option<HostName> {
    let (_, parent) = name.as_str().split_once('.')?;
    let (first, rest) = parent.split_once('.')?;
    let of_a_country = first.len() <= 3 && rest.len() == 2;
    if of_a_country { None } else { parent.parse().ok() }
}

/// Adds a rule for each run of ports.
fn extend(rules: &mut Vec<NetworkRule>, target: &Target, ports: &BTreeSet<u16>) {
    let mut runs: Vec<Ports> = Vec::new();
    for port in ports {
        match (runs.last_mut(), Ports::one(*port)) {
            (Some(run), Some(_)) if run.last.checked_add(1) == Some(*port) => run.last = *port,
            (_, Some(one)) => runs.push(one),
            // What has no ports needs a rule that names none, and that speaks of all.
            (_, None) => {
                rules.push(NetworkRule { target: target.clone(), ports: None });
                return;
            }
        }
    }
    rules.extend(runs.into_iter().map(|run| NetworkRule { target: target.clone(), ports: Some(run) }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(seen: &[&str]) -> Vec<String> {
        let reached = seen.iter().map(|text| {
            let (host, port) = text.rsplit_once(':').unwrap();
            Destination { host: host.parse().unwrap(), port: port.parse().unwrap() }
        });
        smallest(&reached.collect()).allow.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_have_the_ports_at_which_they_were_reached() {
        assert_eq!(
            learned(&["b.example:443", "a.example:80", "a.example:443"]),
            ["a.example:80", "a.example:443", "b.example:443"]
        );
        assert_eq!(learned(&["a.example:8001", "a.example:8000", "a.example:8002"]), ["a.example:8000-8002"]);
        assert_eq!(learned(&["192.0.2.7:53", "192.0.2.7:0"]), ["192.0.2.7"]);
        assert_eq!(learned(&["2001:db8::1:5432"]), ["[2001:db8::1]:5432"]);
    }

    #[test]
    fn three_siblings_make_a_wildcard_and_two_do_not() {
        let two = ["a.cdn.example:443", "b.cdn.example:443"];
        assert_eq!(learned(&two), two);
        let three = ["a.cdn.example:443", "b.cdn.example:443", "c.cdn.example:443"];
        assert_eq!(learned(&three), ["*.cdn.example:443"]);
        let other = ["a.cdn.example:443", "b.cdn.example:443", "c.cdn.example:80", "d.cdn.example:443"];
        assert_eq!(learned(&other), ["*.cdn.example:443", "c.cdn.example:80"]);
    }

    #[test]
    fn what_everybody_may_register_is_never_a_wildcard() {
        let names = ["a.com:443", "b.com:443", "c.com:443"];
        assert_eq!(learned(&names), names);
        let names = ["a.co.uk:443", "b.co.uk:443", "c.co.uk:443"];
        assert_eq!(learned(&names), names);
    }

    #[test]
    fn everything_that_was_reached_is_allowed_by_what_was_learned() {
        let seen =
            ["a.x.example:443", "b.x.example:443", "c.x.example:443", "c.x.example:80", "192.0.2.1:22"];
        let rules: Vec<NetworkRule> = learned(&seen).iter().map(|rule| rule.parse().unwrap()).collect();
        for text in seen {
            let wanted: NetworkRule = text.parse().unwrap();
            assert!(rules.iter().any(|rule| rule.covers(&wanted)), "{text} by {rules:?}");
        }
    }
}

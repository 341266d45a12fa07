use proptest::prelude::*;
use warren_core::network::{Grant, NetworkMode, Protocol, Wish};

use super::*;

fn policy(mode: NetworkMode, allow: &[&str], deny: &[&str]) -> NetworkPolicy {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    NetworkPolicy { allow: rules(allow), deny: rules(deny), ..NetworkPolicy::of(mode) }
}

fn shown(reach: &Reach) -> Vec<String> {
    reach.ports.iter().map(|(network, ports)| format!("{network} {ports}")).collect()
}

#[test]
fn the_class_follows_from_the_strictest() {
    let class = |policies: &[NetworkPolicy]| Rules::of(policies, 0).class;
    let (public, learn) = (NetworkPolicy::public(), NetworkPolicy::of(NetworkMode::Learn));
    let (allow, none) = (policy(NetworkMode::Allow, &["example.com"], &[]), NetworkPolicy::none());
    assert_eq!(class(std::slice::from_ref(&public)), Class::Direct);
    assert_eq!(class(&[policy(NetworkMode::Public, &[], &["192.0.2.0/24"])]), Class::Direct);
    assert_eq!(class(&[policy(NetworkMode::Public, &[], &["example.com"])]), Class::WatchedOpen);
    assert_eq!(class(&[public.clone(), learn]), Class::WatchedOpen);
    assert_eq!(class(&[public.clone(), allow]), Class::WatchedClosed);
    assert_eq!(class(&[public, none]), Class::WatchedClosed);
    assert_eq!(class(&[]), Class::WatchedClosed);
}

#[test]
fn only_what_all_open_is_open() {
    let one = policy(NetworkMode::Allow, &["192.0.2.0/24", "198.51.100.7:80-90", "example.com"], &[]);
    let two = policy(NetworkMode::Ask, &["192.0.2.64/26:53", "198.51.100.0/24:85-99"], &[]);
    let rules = Rules::of(&[one.clone(), two], 0);
    assert_eq!(shown(&rules.opened), ["192.0.2.64/26 53", "198.51.100.7 85-90"]);
    assert_eq!(rules.opened.whole, [], "the second opens ports alone");
    let rules = Rules::of(&[one.clone(), NetworkPolicy::public()], 0);
    assert_eq!(shown(&rules.opened), ["192.0.2.0/24 0-65535", "198.51.100.7 80-90"]);
    assert_eq!(rules.opened.whole, ["192.0.2.0/24".parse().unwrap()]);
    assert_eq!(Rules::of(&[one, NetworkPolicy::none()], 0).opened, Reach::default());
    assert_eq!(Rules::of(&[], 0).opened, Reach::default());
}

#[test]
fn what_any_denies_is_denied() {
    let one = policy(NetworkMode::Public, &[], &["*:25", "192.0.2.0/24:20-30", "203.0.113.9"]);
    let two = policy(NetworkMode::Public, &[], &["198.51.100.0/24:443"]);
    let rules = Rules::of(&[one, two], 0);
    let denied =
        ["0.0.0.0/0 25", "::/0 25", "192.0.2.0/24 20-24", "192.0.2.0/24 26-30", "198.51.100.0/24 443"];
    assert_eq!(shown(&rules.denied)[..5], denied);
    assert_eq!(shown(&rules.denied)[5..], ["203.0.113.9 0-24", "203.0.113.9 26-65535"]);
    assert_eq!(rules.denied.whole, everything(), "ICMP has no ports: any denial of a place closes it");
}

#[test]
fn the_tightest_limits_hold() {
    let mut one = NetworkPolicy::public();
    one.limits = NetworkLimits { connections: 9, up_bytes_per_s: Some(1 << 20), ..Default::default() };
    let mut two = NetworkPolicy::public();
    two.limits =
        NetworkLimits { new_connections_per_s: 3, up_bytes_per_s: Some(1 << 19), ..Default::default() };
    let limits = Rules::of(&[one, two], 0).limits;
    assert_eq!((limits.connections, limits.new_connections_per_s), (9, 3));
    assert_eq!((limits.up_bytes_per_s, limits.down_bytes_per_s), (Some(1 << 19), None));
}

#[test]
fn what_was_opened_for_a_while_closes_again() {
    let mut timed = policy(NetworkMode::Allow, &[], &[]);
    let grant = |rule: &str, effect, until| Grant {
        rule: rule.parse().unwrap(),
        effect,
        until_unix_ms: until,
        by: "test".to_owned(),
    };
    timed.grants.push(grant("192.0.2.1", GrantEffect::Allow, Some(100)));
    timed.grants.push(grant("192.0.2.2", GrantEffect::Deny, Some(200)));
    let at = |now| Rules::of(std::slice::from_ref(&timed), now);
    assert_eq!((at(99).opened.whole.len(), at(100).opened.whole.len()), (1, 0));
    assert_eq!((at(199).denied.whole.len(), at(200).denied.whole.len()), (1, 0));
    let next = |now| next_change(std::slice::from_ref(&timed), now);
    assert_eq!((next(0), next(100), next(200)), (Some(100), Some(200), None));
}

fn some_rule() -> impl Strategy<Value = String> {
    let network = prop_oneof![
        Just("*".to_owned()),
        (0..4_u8, 24..=32_u8).prop_map(|(low, prefix)| {
            let mask = u32::MAX << (32 - prefix);
            let address = Ipv4Addr::from_bits(Ipv4Addr::new(192, 0, 2, low * 40).to_bits() & mask);
            format!("{address}/{prefix}")
        }),
    ];
    let ports =
        prop_oneof![Just(None), (1..6_u16, 0..4_u16).prop_map(|(first, more)| Some((first, first + more)))];
    (network, ports).prop_map(|(network, ports)| match ports {
        Some((first, last)) => format!("{network}:{first}-{last}"),
        None => network,
    })
}

fn some_policy() -> impl Strategy<Value = NetworkPolicy> {
    let rules = || prop::collection::vec(some_rule(), 0..5);
    let mode = prop_oneof![Just(NetworkMode::Allow), Just(NetworkMode::Public), Just(NetworkMode::None)];
    (mode, rules(), rules()).prop_map(|(mode, allow, deny)| {
        let parse = |texts: Vec<String>| texts.iter().map(|text| text.parse().unwrap()).collect();
        let allow = if mode == NetworkMode::Allow { parse(allow) } else { Vec::new() };
        NetworkPolicy { allow, deny: parse(deny), ..NetworkPolicy::of(mode) }
    })
}

/// How the kernel reads them.
fn passes(rules: &Rules, address: IpAddr, port: Option<u16>) -> bool {
    let within = |reach: &Reach| match port {
        Some(port) => {
            let here =
                reach.ports.iter().filter(|(net, ports)| net.contains(address) && ports.contains(port));
            let count = here.count();
            assert!(count <= 1, "{address}:{port} is said {count} times");
            count == 1
        }
        None => reach.whole.iter().any(|network| network.contains(address)),
    };
    !within(&rules.denied) && (rules.class != Class::WatchedClosed || within(&rules.opened))
}

proptest! {
    #[test]
    fn the_kernel_and_the_policies_agree(policies in prop::collection::vec(some_policy(), 0..4)) {
        let rules = Rules::of(&policies, 0);
        for low in (0..=255).step_by(9) {
            let address = IpAddr::from([192, 0, 2, low]);
            for port in [None, Some(1), Some(3), Some(5), Some(8), Some(4000)] {
                let protocol = if port.is_some() { Protocol::Udp } else { Protocol::Icmp };
                let wish = Wish { protocol, name: None, address: Some(address), port: port.unwrap_or(0) };
                let allowed = |policy: &NetworkPolicy| {
                    matches!(policy.decide(&wish, &[], 0), warren_core::network::Decision::Allowed(_))
                };
                let expected = !policies.is_empty() && policies.iter().all(allowed);
                prop_assert_eq!(passes(&rules, address, port), expected, "{} {:?}", address, port);
            }
        }
    }
}

use proptest::prelude::*;

use super::*;

fn rule(text: &str) -> NetworkRule {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn rules_are_shown_as_they_are_written() {
    let texts = [
        "example.com",
        "*.example.com",
        "*.example.com:443",
        "example.com:8000-8100",
        "192.0.2.0/24",
        "192.0.2.7",
        "192.0.2.7:5432",
        "192.0.2.0/24:443",
        "2001:db8::/32",
        "[2001:db8::/32]:443",
        "2001:db8::1",
        "*",
        "*:443",
    ];
    for text in texts {
        assert_eq!(rule(text).to_string(), text);
    }
    assert_eq!(rule("EXAMPLE.com.").to_string(), "example.com");
    assert_eq!(rule("[2001:db8::1]").to_string(), "2001:db8::1");
}

#[test]
fn what_is_no_rule_says_why() {
    let cases = [
        ("", "empty"),
        ("a.com:0", "ports"),
        ("a.com:65536", "ports"),
        ("a.com:9-8", "ports"),
        ("a.com:", "ports"),
        ("a.com:+80", "ports"),
        ("192.0.2.1/24", "network"),
        ("192.0.2.0/33", "network"),
        ("192.0.2.0/+4", "network"),
        ("a.*.com", "`*` stands"),
        ("*a.com", "`*` stands"),
        ("*.", "empty"),
        ("0x7f.1", "neither"),
        ("[::1", "neither"),
        ("http://a.com", "ports"),
    ];
    for (text, part) in cases {
        let error = text.parse::<NetworkRule>().map(|rule| format!("{rule:?}")).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn an_address_is_in_a_network_in_either_writing() {
    let network = rule("192.0.2.0/24");
    assert!(network.holds("192.0.2.9".parse().unwrap()));
    assert!(network.holds("::ffff:192.0.2.9".parse().unwrap()));
    assert!(!network.holds("192.0.3.9".parse().unwrap()));
    assert!(!network.holds("2001:db8::1".parse().unwrap()));
    let all: Cidr = "0.0.0.0/0".parse().unwrap();
    assert!(all.contains("255.255.255.255".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
    assert!("::/0".parse::<Cidr>().unwrap().contains("2001:db8::1".parse().unwrap()));
}

#[test]
fn a_wildcard_takes_whole_labels_and_not_the_name_itself() {
    let below = rule("*.example.com");
    let names = |text: &str| below.names(&text.parse().unwrap());
    assert!(names("a.example.com") && names("a.b.example.com"));
    assert!(!names("example.com") && !names("evil-example.com") && !names("example.com.evil"));
}

#[test]
fn a_rule_covers_what_is_part_of_it() {
    let covered = [
        ("*", "192.0.2.0/24:80"),
        ("example.com", "example.com:443"),
        ("*.example.com", "a.example.com"),
        ("*.example.com", "*.b.example.com:1-2"),
        ("192.0.2.0/24", "192.0.2.7"),
        ("a.com:1-100", "a.com:20-30"),
    ];
    for (wide, narrow) in covered {
        assert!(rule(wide).covers(&rule(narrow)), "{wide} {narrow}");
        assert!(!rule(narrow).covers(&rule(wide)), "{narrow} {wide}");
        assert!(rule(wide).covers(&rule(wide)), "{wide}");
    }
    for (one, other) in [("*.example.com", "example.com"), ("a.com:80", "a.com"), ("192.0.2.1", "a.com")] {
        assert!(!rule(one).covers(&rule(other)), "{one} {other}");
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_every_rule_is_read_again(text in "\\PC{0,60}|[a-z0-9.:*/\\[\\]-]{0,40}") {
        if let Ok(rule) = text.parse::<NetworkRule>() {
            prop_assert_eq!(rule.to_string().parse::<NetworkRule>(), Ok(rule));
        }
    }

    #[test]
    fn a_network_contains_what_has_its_prefix(bits: u32, prefix in 0u8..=32, other: u32) {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        let network = Cidr::new(Ipv4Addr::from_bits(bits & mask).into(), prefix).unwrap();
        prop_assert_eq!(network.contains(Ipv4Addr::from_bits(other).into()), other & mask == bits & mask);
        prop_assert_eq!(Cidr::new(Ipv4Addr::from_bits(bits).into(), prefix).is_some(), bits & mask == bits);
    }
}

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

#[test]
fn a_network_without_a_part_of_it_is_what_lies_around_that() {
    let left = |whole: &str, hole: &str| -> Vec<String> {
        cidr(whole).without(cidr(hole)).iter().map(ToString::to_string).collect()
    };
    assert_eq!(left("10.0.0.0/8", "10.128.0.0/10"), ["10.0.0.0/9", "10.192.0.0/10"]);
    assert_eq!(left("192.0.2.0/30", "192.0.2.1"), ["192.0.2.2/31", "192.0.2.0"]);
    assert_eq!(left("192.0.2.0/24", "192.0.2.0/24"), [""; 0]);
    assert_eq!(left("192.0.2.0/24", "0.0.0.0/0"), [""; 0]);
    assert_eq!(left("192.0.2.0/24", "198.51.100.0/24"), ["192.0.2.0/24"]);
    assert_eq!(left("192.0.2.0/24", "2001:db8::/32"), ["192.0.2.0/24"]);
    assert_eq!(cidr("0.0.0.0/0").without(cidr("1.1.1.1")).len(), 32);
    assert_eq!(cidr("::/0").without(cidr("2001:db8::1")).len(), 128);
    let around =
        |text: &str, prefix| Cidr::around(text.parse().unwrap(), prefix).map(|cidr| cidr.to_string());
    assert_eq!(around("10.1.2.3", 8).as_deref(), Some("10.0.0.0/8"));
    assert_eq!((around("10.1.2.3", 33), around("2001:db8::1", 0).as_deref()), (None, Some("::/0")));
}

proptest! {
    #[test]
    fn an_address_is_left_if_it_is_in_the_whole_and_not_in_the_hole(
        (whole, hole, address) in (any::<u32>(), any::<u32>(), any::<u32>()),
        (outer, inner) in (0_u8..=32, 0_u8..=32),
        near in any::<bool>(),
    ) {
        // Half of the holes lie in the whole, and half of the addresses in the hole's
        // neighbourhood.
        let whole = Cidr::around(std::net::Ipv4Addr::from_bits(whole).into(), outer).unwrap();
        let shift = |bits: u32, by: u8| bits.checked_shr(by.into()).unwrap_or(0);
        let IpAddr::V4(base) = whole.address() else { unreachable!() };
        let hole = if near { base.to_bits() | shift(hole, outer) } else { hole };
        let hole = Cidr::around(std::net::Ipv4Addr::from_bits(hole).into(), inner).unwrap();
        let IpAddr::V4(base) = hole.address() else { unreachable!() };
        let address: IpAddr = std::net::Ipv4Addr::from_bits(base.to_bits() ^ shift(address, inner.saturating_sub(2))).into();
        let left = whole.without(hole);
        let held = left.iter().filter(|cidr| cidr.contains(address)).count();
        prop_assert_eq!(held, usize::from(whole.contains(address) && !hole.contains(address)));
    }
}

use std::time::Duration;

use warren_core::Owner;

use super::*;

const ADDRESS: [u8; 4] = [192, 0, 2, 1];

/// A sandbox under these policies, for which `names` were answered with the address.
fn guest(policies: &[&str], names: &[&str]) -> Guest {
    let policies: Vec<NetworkPolicy> =
        policies.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let id = "sbxh7777777777777777777777777".parse().unwrap();
    let guest = Guest::new(id, Owner::first(), vec![[10, 213, 0, 1].into()], &policies);
    for name in names {
        guest.pins.pin(&name.parse().unwrap(), &[ADDRESS.into()], Duration::from_secs(60));
    }
    guest
}

fn goal() -> Goal {
    Goal::Address(ADDRESS.into())
}

fn with<T>(policies: &[&str], names: &[&str], look: impl FnOnce(Judge<'_>) -> T) -> T {
    let (book, guest) = (Book::new(Vec::new()), guest(policies, names));
    look(Judge { book: &book, guest: &guest, port: 443 })
}

fn named(policies: &[&str], pinned: &[&str], name: &str) -> Verdict {
    with(policies, pinned, |judge| judge.named(goal(), &name.parse().unwrap()))
}

const LIST: &str =
    r#"{"mode": "allow", "allow": ["*.example.com", "192.0.2.128/25"], "deny": ["bad.example.com"]}"#;

#[test]
fn a_name_opens_only_the_addresses_it_was_answered_with() {
    assert!(matches!(named(&[LIST], &["a.example.com"], "a.example.com"), Verdict::Allowed(Why::Allow(_))));
    assert!(matches!(named(&[LIST], &[], "a.example.com"), Verdict::Unproven(_)));
    assert!(matches!(named(&[LIST], &["b.example.com"], "a.example.com"), Verdict::Unproven(_)));
    assert_eq!(named(&[LIST], &["evil.com"], "evil.com"), Verdict::Denied(Why::NotListed));
}

#[test]
fn names_that_look_alike_are_others() {
    for name in ["example.com", "evil-example.com", "a.example.com.evil", "aexample.com"] {
        assert_eq!(named(&[LIST], &[name], name), Verdict::Denied(Why::NotListed), "{name}");
    }
}

#[test]
fn what_is_denied_stays_denied_proven_or_not() {
    for pinned in [&["bad.example.com"][..], &[]] {
        assert!(matches!(named(&[LIST], pinned, "bad.example.com"), Verdict::Denied(Why::Deny(_))));
    }
    let open = r#"{"mode": "public", "deny": ["evil.com"]}"#;
    assert!(matches!(named(&[open], &[], "evil.com"), Verdict::Denied(Why::Deny(_))));
    assert!(matches!(named(&[open], &[], "good.com"), Verdict::Allowed(_)));
}

#[test]
fn without_a_name_one_of_the_addresss_names_must_be_allowed_and_none_denied() {
    let nameless = |names: &[&str]| with(&[LIST], names, |judge| judge.nameless(goal()));
    assert!(matches!(nameless(&["a.example.com"]), Verdict::Allowed(_)));
    assert_eq!(nameless(&[]), Verdict::Denied(Why::NotListed));
    assert!(matches!(nameless(&["a.example.com", "other.org"]), Verdict::Allowed(_)));
    assert!(matches!(nameless(&["a.example.com", "bad.example.com"]), Verdict::Denied(Why::Deny(_))));
}

#[test]
fn who_should_say_a_name_and_does_not_is_closed_out() {
    let unnamed = |policy: &str| with(&[policy], &["a.example.com"], |judge| judge.unnamed(goal()));
    assert_eq!(unnamed(LIST), Verdict::Denied(Why::NoName));
    assert!(matches!(unnamed(r#"{"mode": "allow", "allow": ["192.0.2.0/24"]}"#), Verdict::Allowed(_)));
    assert_eq!(unnamed(r#""ask""#), Verdict::Ask, "an address can be asked about");
    assert!(matches!(unnamed(r#"{"mode": "public", "deny": ["evil.com"]}"#), Verdict::Allowed(_)));
}

#[test]
fn an_address_in_place_of_a_name_is_judged_as_one() {
    let literal = |policy: &str, said: [u8; 4]| {
        with(&[policy], &["a.example.com"], |judge| judge.literal(goal(), said.into()))
    };
    assert_eq!(literal(LIST, ADDRESS), Verdict::Denied(Why::NotListed));
    assert_eq!(
        literal(LIST, [192, 0, 2, 200]),
        Verdict::Denied(Why::NoName),
        "an open one, but it goes elsewhere"
    );
    assert!(matches!(literal(r#"{"mode": "allow", "allow": ["192.0.2.1"]}"#, ADDRESS), Verdict::Allowed(_)));
    assert!(matches!(literal(r#""learn""#, [10, 0, 0, 1]), Verdict::Denied(Why::Closed(_))));
}

#[test]
fn the_gateway_is_nobody_until_a_name_is_said() {
    with(&[LIST], &[], |judge| {
        assert_eq!(judge.nameless(Goal::Gateway), Verdict::Denied(Why::NoName));
        assert_eq!(judge.unnamed(Goal::Gateway), Verdict::Denied(Why::NoName));
        assert!(matches!(
            judge.named(Goal::Gateway, &"a.example.com".parse().unwrap()),
            Verdict::Unproven(_)
        ));
        assert_eq!(judge.named(Goal::Gateway, &"evil.com".parse().unwrap()), Verdict::Denied(Why::NotListed));
    });
    for text in ["169.254.77.1:80", "[::ffff:169.254.77.1]:80", "[fe80::77:1]:80"] {
        assert_eq!(Goal::of(text.parse().unwrap()), Goal::Gateway, "{text}");
    }
}

#[test]
fn a_stance_is_taken_only_where_no_name_could_change_it() {
    let by_address = |policy: &str, address: [u8; 4]| {
        with(&[policy], &[], |judge| judge.address_only(Goal::Address(address.into())))
    };
    assert!(matches!(by_address(r#""learn""#, ADDRESS), AddressVerdict::Open(_)));
    assert!(matches!(
        by_address(r#"{"mode": "public", "deny": ["evil.com"]}"#, ADDRESS),
        AddressVerdict::ByName(Verdict::Allowed(_))
    ));
    assert!(matches!(
        by_address(r#"{"mode": "public", "secrets": ["key"]}"#, ADDRESS),
        AddressVerdict::ByName(_)
    ));
    assert!(matches!(
        by_address(r#"{"mode": "allow", "allow": ["192.0.2.0/24"]}"#, ADDRESS),
        AddressVerdict::Open(_)
    ));
    assert!(matches!(by_address(LIST, ADDRESS), AddressVerdict::ByName(Verdict::Denied(_))));
    for address in [[10, 0, 0, 1], [169, 254, 169, 254], [127, 0, 0, 1]] {
        assert!(matches!(
            by_address(r#"{"mode": "allow", "allow": ["*"]}"#, address),
            AddressVerdict::Closed(Why::Closed(_))
        ));
    }
    assert!(matches!(
        by_address(r#"{"mode": "learn", "deny": ["192.0.2.1"]}"#, ADDRESS),
        AddressVerdict::Closed(Why::Deny(_))
    ));
}

#[test]
fn every_policy_must_agree() {
    let narrow = r#"{"mode": "allow", "allow": ["a.example.com"]}"#;
    assert!(matches!(named(&[LIST, narrow], &["a.example.com"], "a.example.com"), Verdict::Allowed(_)));
    assert_eq!(named(&[LIST, narrow], &["b.example.com"], "b.example.com"), Verdict::Denied(Why::NotListed));
    assert!(matches!(named(&[], &["a.example.com"], "a.example.com"), Verdict::Denied(Why::Mode(_))));
}

#[test]
fn what_was_let_through_is_judged_again_by_what_it_stood_on() {
    let basis = Basis::Name("a.example.com".parse().unwrap(), ADDRESS.into());
    assert!(with(&[LIST], &[], |judge| judge.still_allows(&basis)), "its pin may be over");
    assert!(!with(&[r#"{"mode": "allow", "allow": ["other.org"]}"#], &[], |judge| judge.still_allows(&basis)));
    assert!(!with(&[r#""ask""#], &[], |judge| judge.still_allows(&basis)));
    let raw = Basis::Address(ADDRESS.into(), vec!["a.example.com".parse().unwrap()]);
    assert!(with(&[LIST], &[], |judge| judge.still_allows(&raw)));
    assert!(!with(&[r#""none""#], &[], |judge| judge.still_allows(&raw)));
}

use super::*;

fn policy(text: &str) -> NetworkPolicy {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

fn tcp<'a>(name: Option<&'a HostName>, address: &str, port: u16) -> Wish<'a> {
    Wish { protocol: Protocol::Tcp, name, address: Some(address.parse().unwrap()), port }
}

fn question(name: &HostName) -> Wish<'_> {
    Wish { protocol: Protocol::Dns, name: Some(name), address: None, port: 0 }
}

fn allowed(policy: &NetworkPolicy, wish: &Wish<'_>) -> bool {
    matches!(policy.decide(wish, &[], 0), Decision::Allowed(_))
}

#[test]
fn a_policy_is_read_from_a_word_or_an_object_and_written_back() {
    assert_eq!(policy(r#""public""#), NetworkPolicy::public());
    let whole = policy(r#"{"mode": "allow", "allow": ["*.example.com:443"], "deny": ["a.example.com"]}"#);
    assert_eq!(policy(&serde_json::to_string(&whole).unwrap()), whole);
    for text in [
        r#""open""#,
        r#"{"mode": "allow", "alow": []}"#,
        r#"{"allow": []}"#,
        "null",
        r#"{"mode": "allow", "allow": ["a b"]}"#,
    ] {
        assert!(serde_json::from_str::<NetworkPolicy>(text).is_err(), "{text}");
    }
}

#[test]
fn nothing_opens_what_is_closed_to_all() {
    let all = policy(r#"{"mode": "allow", "allow": ["*", "0.0.0.0/0"]}"#);
    for policy in [&all, &NetworkPolicy::public(), &NetworkPolicy::of(NetworkMode::Learn)] {
        assert!(allowed(policy, &tcp(None, "192.0.2.1", 80)));
        for address in ["10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "fd00::1"] {
            assert!(!allowed(policy, &tcp(None, address, 80)), "{address}");
        }
    }
    let excepted = ["10.0.0.0/8:80".parse().unwrap()];
    assert!(matches!(all.decide(&tcp(None, "10.0.0.1", 80), &excepted, 0), Decision::Allowed(_)));
    assert!(matches!(all.decide(&tcp(None, "10.0.0.1", 81), &excepted, 0), Decision::Denied(_)));
}

#[test]
fn a_list_opens_names_networks_and_ports_and_nothing_else() {
    let list =
        policy(r#"{"mode": "allow", "allow": ["example.com:443", "*.pypi.org", "192.0.2.0/24:5432"]}"#);
    let (example, files, other) = (name("example.com"), name("files.pypi.org"), name("evil.com"));
    assert!(allowed(&list, &tcp(Some(&example), "198.51.100.1", 443)));
    assert!(!allowed(&list, &tcp(Some(&example), "198.51.100.1", 80)));
    assert!(allowed(&list, &tcp(Some(&files), "198.51.100.1", 80)));
    assert!(!allowed(&list, &tcp(Some(&other), "198.51.100.1", 443)));
    assert!(!allowed(&list, &tcp(None, "198.51.100.1", 443)));
    assert!(allowed(&list, &tcp(None, "192.0.2.9", 5432)));
    assert!(!allowed(&list, &tcp(None, "192.0.2.9", 5433)));
    assert!(allowed(&list, &question(&example)) && allowed(&list, &question(&files)));
    assert!(!allowed(&list, &question(&other)));
    assert!(!allowed(&policy(r#"{"mode": "allow"}"#), &question(&example)), "an empty list is closed");
}

#[test]
fn denials_win_over_everything_that_opens() {
    let list = policy(
        r#"{"mode": "allow", "allow": ["*.example.com", "192.0.2.0/24"], "deny": ["a.example.com", "192.0.2.9"]}"#,
    );
    assert!(!allowed(&list, &tcp(Some(&name("a.example.com")), "198.51.100.1", 80)));
    assert!(!allowed(&list, &question(&name("a.example.com"))));
    assert!(!allowed(&list, &tcp(Some(&name("b.example.com")), "192.0.2.9", 80)));
    assert!(allowed(&list, &tcp(Some(&name("b.example.com")), "192.0.2.8", 80)));
    let public = policy(r#"{"mode": "public", "deny": ["evil.com:443"]}"#);
    assert!(allowed(&public, &question(&name("evil.com"))), "another port of it is open");
    assert!(!allowed(&public, &tcp(Some(&name("evil.com")), "192.0.2.1", 443)));
}

#[test]
fn a_grant_holds_for_its_time() {
    let mut asked = NetworkPolicy::of(NetworkMode::Ask);
    let wish_name = name("example.com");
    let wish = tcp(Some(&wish_name), "192.0.2.1", 443);
    assert_eq!(asked.decide(&wish, &[], 0), Decision::Ask);
    let grant = |effect, until| Grant {
        rule: "example.com".parse().unwrap(),
        effect,
        until_unix_ms: until,
        by: "me".to_owned(),
    };
    asked.grants = vec![grant(GrantEffect::Allow, Some(10))];
    assert!(matches!(asked.decide(&wish, &[], 9), Decision::Allowed(_)));
    assert_eq!(asked.decide(&wish, &[], 10), Decision::Ask);
    asked.grants = vec![grant(GrantEffect::Allow, None), grant(GrantEffect::Deny, Some(5))];
    assert!(matches!(asked.decide(&wish, &[], 0), Decision::Denied(_)));
    assert!(matches!(asked.decide(&wish, &[], 5), Decision::Allowed(_)));
}

#[test]
fn a_later_grant_takes_the_place_of_an_earlier_one() {
    let grant = |rule: &str, effect, until| Grant {
        rule: rule.parse().unwrap(),
        effect,
        until_unix_ms: until,
        by: "me".to_owned(),
    };
    let ask = NetworkPolicy::of(NetworkMode::Ask);
    let first = vec![grant("a.com", GrantEffect::Deny, None), grant("b.com", GrantEffect::Allow, Some(10))];
    let granted = ask.granting(first.clone(), 0);
    assert_eq!(granted.grants, first);
    assert_eq!(granted.next_expiry(), Some(10));
    let again = vec![grant("a.com", GrantEffect::Allow, None)];
    assert_eq!(granted.granting(again.clone(), 10).grants, again, "the other is over by then");
    assert_eq!(granted.current(9), granted);
    assert_eq!(granted.inherited(), ask);
    let twice = vec![grant("a.com", GrantEffect::Deny, None), grant("a.com", GrantEffect::Allow, None)];
    assert_eq!(ask.granting(twice.clone(), 0).grants, twice[1..]);
    let closed = ask.granting(vec![grant("10.0.0.1", GrantEffect::Allow, None)], 0);
    assert!(closed.validate(&[]).is_err(), "a grant opens nothing that is closed to all");
    assert!(ask.granting(vec![grant("10.0.0.1", GrantEffect::Deny, None)], 0).validate(&[]).is_ok());
}

#[test]
fn limits_over_the_most_are_named() {
    let most = NetworkLimits { down_bytes_per_s: Some(1 << 20), ..NetworkLimits::default() };
    assert_eq!(most.exceeds(&most), None);
    assert_eq!(NetworkLimits::default().exceeds(&most), Some(NetworkLimit::Download), "no limit is more");
    let many = NetworkLimits { connections: most.connections + 1, ..most };
    assert_eq!(many.exceeds(&most), Some(NetworkLimit::Connections));
    assert_eq!(most.exceeds(&NetworkLimits::default()), None);
}

#[test]
fn what_cannot_be_is_named() {
    let wrong = [
        (r#"{"mode": "public", "allow": ["a.com"]}"#, "allow:"),
        (r#"{"mode": "none", "deny": ["a.com"]}"#, "deny:"),
        (r#"{"mode": "allow", "allow": ["10.0.0.0/8"]}"#, "allow: `10.0.0.0/8` is closed"),
        (r#"{"mode": "allow", "allow": ["169.254.169.254"]}"#, "allow:"),
        (r#"{"mode": "allow", "secrets": ["a", "a"]}"#, "secrets:"),
        (r#"{"mode": "public", "limits": {"connections": 0}}"#, "limits.connections"),
        (r#"{"mode": "public", "limits": {"up_bytes_per_s": 1}}"#, "limits.up_bytes_per_s"),
    ];
    for (text, start) in wrong {
        let wrong = policy(text).validate(&[]).unwrap_err();
        let error = wrong.to_string();
        assert!(error.starts_with(start) && error.starts_with(&wrong.field.to_string()), "{error}");
    }
    let excepted = ["10.1.0.0/16".parse().unwrap()];
    assert!(policy(r#"{"mode": "allow", "allow": ["10.1.2.0/24"]}"#).validate(&excepted).is_ok());
    assert!(policy(r#"{"mode": "allow", "allow": ["0.0.0.0/0"]}"#).validate(&[]).is_ok());
}

#[test]
fn who_must_know_names_is_said() {
    assert!(!NetworkPolicy::public().needs_names());
    assert!(!policy(r#"{"mode": "public", "deny": ["192.0.2.0/24"]}"#).needs_names());
    assert!(policy(r#"{"mode": "public", "deny": ["evil.com"]}"#).needs_names());
    assert!(policy(r#"{"mode": "public", "secrets": ["a"]}"#).needs_names());
    assert!(NetworkPolicy::of(NetworkMode::Allow).needs_names());
}

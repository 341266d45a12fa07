use proptest::prelude::*;

use super::*;

#[test]
fn every_way_to_write_a_name_is_one_name() {
    for text in ["example.com", "EXAMPLE.com", "example.com.", "Example.Com."] {
        assert_eq!(text.parse::<HostName>().unwrap().as_str(), "example.com");
    }
}

#[test]
fn what_is_no_name_is_refused() {
    let cases = [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "-a.com",
        "a-.com",
        "a b.com",
        "a\0.com",
        "a%00.com",
        "a\r\n.com",
        "u@a.com",
        "a.com:80",
        "a.com/",
        "ä.com",
        "127.1",
        "0x7f.1",
        "2130706433",
        "017700000001",
        "0x7f000001",
        "1.2.3.4.5",
        "a.0x1",
        "fe80::1%eth0",
        "*.a.com",
        "a.com..",
    ];
    for text in cases {
        assert!(text.parse::<HostName>().is_err(), "{text:?}");
    }
    assert!(format!("{}.com", "a".repeat(64)).parse::<HostName>().is_err());
    assert!("a.".repeat(200).parse::<HostName>().is_err());
}

#[test]
fn addresses_are_read_in_their_usual_form_only() {
    let address = |text: &str| match text.parse::<Host>() {
        Ok(Host::Address(address)) => Some(address.to_string()),
        _ => None,
    };
    assert_eq!(address("192.0.2.1").as_deref(), Some("192.0.2.1"));
    assert_eq!(address("192.0.2.1.").as_deref(), Some("192.0.2.1"));
    assert_eq!(address("[2001:db8::1]").as_deref(), Some("2001:db8::1"));
    assert_eq!(address("2001:DB8::1").as_deref(), Some("2001:db8::1"));
    for text in
        ["192.0.2.01", "192.0.2", "0300.0.2.1", "[192.0.2.1]", "[::1", "::1%lo", "[fe80::1%25lo]", "[]"]
    {
        assert_eq!(address(text), None, "{text}");
    }
}

#[test]
fn below_means_a_whole_label() {
    let name = |text: &str| text.parse::<HostName>().unwrap();
    assert!(name("a.example.com").is_below(&name("example.com")));
    assert!(name("a.b.example.com").is_below(&name("example.com")));
    assert!(!name("example.com").is_below(&name("example.com")));
    assert!(!name("evil-example.com").is_below(&name("example.com")));
    assert!(!name("example.com.evil").is_below(&name("example.com")));
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_read_is_read_the_same_again(text in "\\PC{0,80}|[a-zA-Z0-9.:%@*_\\[\\]x-]{0,40}") {
        if let Ok(name) = text.parse::<HostName>() {
            prop_assert_eq!(name.as_str().parse::<HostName>(), Ok(name.clone()));
            prop_assert!(!name.as_str().bytes().any(|byte| byte.is_ascii_uppercase() || byte <= b' '));
            prop_assert!(name.as_str().parse::<IpAddr>().is_err());
        }
        if let Ok(host) = text.parse::<Host>() {
            prop_assert_eq!(host.to_string().parse::<Host>(), Ok(host));
        }
    }
}

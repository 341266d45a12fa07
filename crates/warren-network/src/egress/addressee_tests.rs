use http::{HeaderValue, Request};
use proptest::prelude::*;

use super::*;

fn request(method: &str, target: &str, hosts: &[&[u8]], version: Version) -> Parts {
    let mut request = Request::builder().method(method).uri(target).version(version).body(()).unwrap();
    for host in hosts {
        request.headers_mut().append(header::HOST, HeaderValue::from_bytes(host).unwrap());
    }
    request.into_parts().0
}

fn get(host: &str) -> Result<Addressee, Unclear> {
    of(&request("GET", "/", &[host.as_bytes()], Version::HTTP_11))
}

fn named(name: &str) -> Asked {
    Asked::Name(name.parse().unwrap())
}

#[test]
fn every_way_to_write_a_host_is_one_host() {
    for host in ["example.com", "EXAMPLE.com", "example.com.", "example.com:80"] {
        assert_eq!(get(host).unwrap().asked, named("example.com"), "{host}");
    }
    let address = |text: &str| Asked::Literal(text.parse().unwrap());
    assert_eq!(get("192.0.2.1:81").unwrap().asked, address("192.0.2.1"));
    assert_eq!(
        get("[2001:db8::1]:8080").unwrap(),
        Addressee { asked: address("2001:db8::1"), port: Some(8080) }
    );
    assert_eq!(get("[::ffff:10.0.0.1]").unwrap().asked, address("10.0.0.1"), "what it really is");
}

#[test]
fn what_is_no_host_is_refused() {
    for host in [
        "",
        " ",
        "a b.com",
        "a%00.com",
        "u@a.com",
        "u:p@a.com",
        "a.com:",
        "a.com:0",
        "a.com:x",
        "a.com:+80",
        "a.com:99999",
        "a.com/",
        "a.com,b.com",
        "2130706433",
        "0x7f.1",
        "017700000001",
        "127.1",
        "2001:db8::1",
        "[::1",
        "[fe80::1%25lo]",
        "*.a.com",
        "a..com",
        ".a.com",
        "a.com:80:80",
        "http://a.com",
    ] {
        assert!(get(host).is_err(), "{host:?}");
    }
    let long = format!("{}.com", "a.".repeat(150));
    assert!(get(&long).is_err());
    assert!(of(&request("GET", "/", &["ä.com".as_bytes()], Version::HTTP_11)).is_err());
    assert!(of(&request("GET", "/", &[b"a\x80.com"], Version::HTTP_11)).is_err());
}

#[test]
fn all_that_name_a_host_must_name_the_same() {
    let two: &[&[u8]] = &[b"a.com", b"a.com"];
    assert!(of(&request("GET", "/", two, Version::HTTP_11)).is_err(), "even twice the same");
    assert!(of(&request("GET", "http://a.com/", &[b"b.com"], Version::HTTP_11)).is_err());
    assert!(of(&request("GET", "http://a.com:81/", &[b"a.com:82"], Version::HTTP_11)).is_err());
    assert!(of(&request("GET", "http://u@a.com/", &[b"a.com"], Version::HTTP_11)).is_err());
    let same = of(&request("GET", "http://A.com/", &[b"a.com."], Version::HTTP_11)).unwrap();
    assert_eq!(same.asked, named("a.com"));
    assert!(of(&request("GET", "http://a.com/", &[b"b.com"], Version::HTTP_2)).is_err());
    assert_eq!(of(&request("GET", "http://a.com/", &[], Version::HTTP_2)).unwrap().asked, named("a.com"));
}

#[test]
fn only_the_oldest_clients_may_say_nothing() {
    assert!(of(&request("GET", "/", &[], Version::HTTP_11)).is_err());
    assert_eq!(of(&request("GET", "/", &[], Version::HTTP_10)).unwrap().asked, Asked::Unnamed(None));
}

#[test]
fn a_tunnel_says_its_port() {
    let tunnel = of(&request("CONNECT", "a.com:443", &[b"a.com:443"], Version::HTTP_11)).unwrap();
    assert_eq!(tunnel, Addressee { asked: named("a.com"), port: Some(443) });
}

proptest! {
    #[test]
    fn no_host_panics_and_what_is_read_is_a_host(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(Addressee { asked, .. }) = read(&bytes) {
            prop_assert!(matches!(asked, Asked::Name(_) | Asked::Literal(_)));
        }
    }
}

use proptest::prelude::*;

use super::super::hello::tests::{nameless as nameless_greeting, to};
use super::*;

fn is_http(bytes: &[u8]) -> bool {
    sniff(bytes) == Sniffed::Http1
}

#[test]
fn requests_are_heard_however_they_begin() {
    for text in [
        "GET / HTTP/1.1\r\n",
        "GET ",
        "POST /x",
        "OPTIONS * HTTP/1.1\r\n",
        "CONNECT a.com:443 HTTP/1.1\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\n",
        " \tGET / HTTP/1.1\r\n",
        "BREW /pot HTTP/1.1\r\n",
        "get / http/1.1\n",
        "M-SEARCH * HTTP/1.1\r\n",
        "FOO\t/\tHTTP/1.0\n",
        "GET\0/ HTTP/1.1",
        "PRI / HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n\r\nXX",
    ] {
        assert!(is_http(text.as_bytes()), "{text:?}: {:?}", sniff(text.as_bytes()));
    }
}

#[test]
fn what_could_still_be_a_request_is_waited_for() {
    for text in [
        "",
        "G",
        "GET",
        "\r\n",
        "BREW ",
        "BREW /pot",
        "PRI",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n",
        "\x16",
        "\u{80}",
    ] {
        let bytes: Vec<u8> = text.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap()).collect();
        assert_eq!(sniff(&bytes), Sniffed::Unclear, "{text:?}");
    }
}

#[test]
fn other_protocols_are_let_be() {
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
        b"SSH-2.0-OpenSSH_9.6p1 Debian-2\r\n",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"*1\r\n$4\r\nPING\r\n",
        b"PING\r\n",
        b"NICK somebody\r\n",
        b"get key\r\n",
        b"AMQP\0\0\x09\x01",
        b"<?xml version='1.0'?>",
        b"0032git-upload-pack /project.git\0host=example.com\0",
        b"\x13BitTorrent protocol",
        b"\x05\x01\x00",
        b"\x16\x01",
        b"STOMP\n",
    ] {
        assert_eq!(sniff(bytes), Sniffed::Other, "{:?}", bytes.escape_ascii().to_string());
    }
}

#[test]
fn greetings_of_tls_are_heard_whole() {
    assert!(matches!(sniff(&to(b"example.com")), Sniffed::Tls(hello) if hello.name().is_some()));
    assert!(matches!(sniff(&nameless_greeting()), Sniffed::Tls(hello) if hello.name().is_none()));
    assert!(matches!(sniff(&[0x80, 0x2e, 1, 3, 1]), Sniffed::Tls(hello) if hello.name().is_none()), "SSL 2");
    assert!(
        matches!(sniff(&[22, 3, 9, 255, 255]), Sniffed::Tls(hello) if hello.name().is_none()),
        "no greeting at all"
    );
}

#[test]
fn nobody_hides_a_request_behind_a_long_start() {
    assert!(is_http(&vec![b'\n'; MOST_HEARD]));
    let long = [b"BREW /".to_vec(), vec![b'a'; MOST_HEARD]].concat();
    assert!(is_http(&long));
    let method = [vec![b'A'; 100], b" / HTTP/1.1\r\nHost: example.com\r\n\r\n".to_vec()].concat();
    assert!(is_http(&method));
    assert_eq!(sniff(&method[..100]), Sniffed::Unclear);
}

#[test]
fn a_server_of_http2_is_known_by_its_settings() {
    assert!(begins_http2(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100]));
    assert!(!begins_http2(b"SSH-2.0-OpenSSH"));
    assert!(!begins_http2(&[0, 0, 5, 4, 0, 0, 0, 0, 0]));
    assert!(!begins_http2(&[]));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        sniff(&bytes);
        begins_http2(&bytes);
    }

    /// Bytes that could still become HTTP or TLS are never called something else before.
    #[test]
    fn no_request_is_taken_for_something_else_on_its_way(
        blank in "[ \t\r\n]{0,4}", method in "[A-Za-z_-]{1,12}", target in "/[!-~]{0,20}", minor in 0..2,
    ) {
        let request = format!("{blank}{method} {target} HTTP/1.{minor}\r\nHost: example.com\r\n\r\n");
        for length in 0..=request.len() {
            let sniffed = sniff(&request.as_bytes()[..length]);
            prop_assert!(matches!(sniffed, Sniffed::Unclear | Sniffed::Http1), "{sniffed:?} after {length} of {request:?}");
        }
        prop_assert_eq!(sniff(request.as_bytes()), Sniffed::Http1);
    }

    #[test]
    fn what_is_clear_stays_so(bytes in prop::collection::vec(any::<u8>(), 1..60), more in prop::collection::vec(any::<u8>(), 0..60)) {
        let first = sniff(&bytes);
        if matches!(first, Sniffed::Other | Sniffed::Http1 | Sniffed::Http2) {
            prop_assert_eq!(sniff(&[bytes, more].concat()), first);
        }
    }
}

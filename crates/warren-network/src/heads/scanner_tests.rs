use proptest::prelude::*;

use super::*;

/// Reads all of it, whole and byte by byte, which must find the same.
fn scan(text: &[u8]) -> Result<Scanner, (usize, FlawKind)> {
    let mut whole = Scanner::new();
    let found = whole.feed(text).map_err(|flaw| (flaw.at, flaw.wrong));
    let mut slow = Scanner::new();
    let mut slowly = Ok(());
    for (at, byte) in text.iter().enumerate() {
        slowly = slow.feed(&[*byte]).map_err(|flaw| (at + flaw.at, flaw.wrong));
        if slowly.is_err() {
            break;
        }
    }
    assert_eq!(found, slowly, "{}", text.escape_ascii());
    assert!(found.is_err() || whole.place == slow.place, "{}", text.escape_ascii());
    found.map(|()| whole)
}

fn wrong(text: &str) -> Option<FlawKind> {
    scan(text.as_bytes()).err().map(|(_, wrong)| wrong)
}

fn ends_between_requests(text: &[u8]) -> bool {
    scan(text).is_ok_and(|scanner| scanner.place == Place::Start)
}

#[test]
fn requests_follow_one_another() {
    let get = "GET /a?b HTTP/1.1\r\nHost: x\r\nX-Empty:\r\nX: \t a\tb \r\n\r\n";
    let post = "POST / HTTP/1.1\r\nHOST: x\r\ncontent-length:  5 \r\n\r\nhe\nlo";
    let chunks = "PUT / HTTP/1.1\r\nhost: x\r\nTransfer-Encoding: Chunked\r\n\r\n\
                  3\r\na\nb\r\n00A\r\n0123456789\r\n0\r\nX-Trailer: y\r\n\r\n";
    let old = "GET / HTTP/1.0\r\n\r\n";
    let all = [get, post, "\r\n", chunks, get, old, post].concat();
    assert!(ends_between_requests(all.as_bytes()));
}

#[test]
fn each_flaw_is_found_where_it_is() {
    let cases = [
        ("GET / HTTP/1.1\nHost: x\r\n\r\n", FlawKind::LineEnd),
        ("GET / HTTP/1.1\r\nHost: x\n\r\n", FlawKind::LineEnd),
        ("GET / HTTP/1.1\r\nHost: x\r\n\n", FlawKind::LineEnd),
        ("GET / HTTP/1.1\r\nHost: x\r\r\n", FlawKind::LineEnd),
        ("\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", FlawKind::LineEnd),
        ("GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n", FlawKind::Control),
        ("GET / HTTP/1.1\r\nHost: x\r\nX: a\x7fb\r\n\r\n", FlawKind::Control),
        ("GET /\t HTTP/1.1\r\n", FlawKind::Control),
        ("GET / HTTP/1.2\r\n", FlawKind::RequestLine),
        ("GET /\r\n", FlawKind::RequestLine),
        ("GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n", FlawKind::Fold),
        ("GET / HTTP/1.1\r\n Host: x\r\n\r\n", FlawKind::Fold),
        ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", FlawKind::Name),
        ("GET / HTTP/1.1\r\n: x\r\n\r\n", FlawKind::Name),
        ("GET / HTTP/1.1\r\nHost\r\n\r\n", FlawKind::Name),
        ("GET / HTTP/1.1\r\n\r\n", FlawKind::Host),
        ("GET / HTTP/1.1\r\nHost: \r\n\r\n", FlawKind::Host),
        ("GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n", FlawKind::Host),
        ("GET / HTTP/1.0\r\nHost: x\r\nhost: y\r\n\r\n", FlawKind::Host),
        ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n", FlawKind::Length),
        ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n", FlawKind::Length),
        ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n", FlawKind::Length),
        ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1 1\r\n\r\n", FlawKind::Length),
        ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551616\r\n\r\n", FlawKind::Length),
        ("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", FlawKind::Length),
        ("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", FlawKind::Encoding),
        ("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunk\r\n\r\n", FlawKind::Encoding),
        ("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunkedx\r\n\r\n", FlawKind::Encoding),
        ("GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\r\n", FlawKind::Encoding),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", FlawKind::Encoding),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
            FlawKind::Both,
        ),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
            FlawKind::Both,
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(wrong(text), Some(expected), "{text:?}");
    }
    let at = scan(b"GET / HTTP/1.1\r\nHost: x\nY").unwrap_err().0;
    assert_eq!(at, b"GET / HTTP/1.1\r\nHost: x".len());
}

#[test]
fn chunks_are_framed_in_one_way_only() {
    let head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (chunks, expected) in [
        ("\r\n", FlawKind::Chunk),
        ("5;a=b\r\nhello\r\n", FlawKind::Chunk),
        ("5 \r\nhello\r\n", FlawKind::Chunk),
        ("0x5\r\nhello\r\n", FlawKind::Chunk),
        ("5\nhello\r\n", FlawKind::Chunk),
        ("5\rhello", FlawKind::LineEnd),
        ("5\r\nhello!", FlawKind::Chunk),
        ("5\r\nhello\n", FlawKind::Chunk),
        ("5\r\nhello\r0", FlawKind::LineEnd),
        ("ffffffffffffffff0\r\n", FlawKind::Chunk),
        ("0\r\nX: y\n", FlawKind::LineEnd),
        ("0\r\n\n", FlawKind::LineEnd),
        ("0\r\nContent Length: 5\r\n", FlawKind::Name),
    ] {
        assert_eq!(wrong(&format!("{head}{chunks}")), Some(expected), "{chunks:?}");
    }
}

#[test]
fn http2_is_none_of_its_business() {
    let bytes = [PREFACE, b"\0\0\0\x04\0\0\0\0\0\n"].concat();
    assert!(scan(&bytes).unwrap().is_over());
    assert_eq!(wrong("PRI * HTTP/2.0\r\n\r\nSM\n"), Some(FlawKind::RequestLine));
    assert!(ends_between_requests(b"PRI / HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert!(ends_between_requests(b"PUT / HTTP/1.1\r\nHost: x\r\n\r\n"));
}

proptest! {
    #[test]
    fn no_bytes_do_any_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(scan(&bytes));
    }

    #[test]
    fn lines_of_anything_are_read_the_same_in_pieces(lines in proptest::collection::vec(
        prop_oneof![
            Just("GET / HTTP/1.1"), Just("POST / HTTP/1.0"), Just("Host: x"), Just("Content-Length: 3"), Just(""),
            Just("Transfer-Encoding: chunked"), Just("3"), Just("abc"), Just("0"), Just("X: y"), Just(" z"),
        ], 0..12), bare in 0..40_usize) {
        let text: String = lines.iter().enumerate()
            .map(|(at, line)| format!("{line}{}", if at == bare { "\n" } else { "\r\n" })).collect();
        drop(scan(text.as_bytes()));
    }

    #[test]
    fn a_bare_line_feed_in_a_head_is_never_passed_on(at in 0..5_usize) {
        let lines = ["GET / HTTP/1.1", "Host: x", "X: y", "Content-Length: 2", ""];
        let text: String = lines.iter().enumerate()
            .map(|(line, text)| format!("{text}{}", if line == at { "\n" } else { "\r\n" })).collect();
        let flaw = scan(text.as_bytes()).err();
        prop_assert_eq!(flaw, Some((text.find('\n').filter(|_| at == 0).unwrap_or_else(|| bare(&text)), FlawKind::LineEnd)));
    }
}

/// Where the line feed is that has no CR before it.
fn bare(text: &str) -> usize {
    let bytes = text.as_bytes();
    (0..bytes.len())
        .find(|at| bytes[*at] == b'\n' && (*at == 0 || bytes[at - 1] != b'\r'))
        .unwrap_or(bytes.len())
}

//! The first bytes of a sandbox's TLS connection, whose name decides where it may go.
//!
//! A greeting that rustls reads as one to a host is never one to another host, or to none, for us.
//! A decision stays the same when more arrives.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rustls::server::Acceptor;
use warren_core::HostName;
use warren_network::fuzzing::{Greeting, Sniffed, greeting, sniff};

fuzz_target!(|data: &[u8]| {
    let read = greeting(data);
    stays(data, &read);
    spoken(data, &read);
    if let Greeting::Whole { shown: Some(shown), .. } = &read {
        assert!(shown.len() <= 253, "{shown}");
        assert!(shown.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{shown:?}");
    }
    let Some(theirs) = server_name(data) else { return };
    match (&read, theirs) {
        // What we refuse goes nowhere.
        (Greeting::Malformed, _) | (Greeting::Whole { is_encrypted: true, .. }, _) => {}
        (Greeting::Unfinished, theirs) => panic!("rustls has read all of it: {theirs:?}"),
        (Greeting::Whole { name: Some(ours), .. }, theirs) => assert_eq!(theirs.as_ref(), Some(ours)),
        (Greeting::Whole { name: None, .. }, theirs) => assert_eq!(theirs, None),
    }
});

/// A beginning is unfinished, or already what the whole is.
fn stays(data: &[u8], whole: &Greeting) {
    let step = (data.len() / 16).max(1);
    for length in (0..data.len()).step_by(step) {
        let begun = greeting(&data[..length]);
        assert!(begun == Greeting::Unfinished || begun == *whole, "{begun:?} after {length}, then {whole:?}");
        let before = sniff(&data[..length]);
        assert!(before == Sniffed::Unclear || before == sniff(data), "{before:?} after {length}");
    }
}

/// A greeting with a name is judged by it.
fn spoken(data: &[u8], read: &Greeting) {
    if let Greeting::Whole { name, .. } = read {
        assert_eq!(sniff(data), Sniffed::Tls(name.clone()));
    }
}

/// The host that rustls takes the greeting to be for; `None` if it does not take it.
fn server_name(data: &[u8]) -> Option<Option<HostName>> {
    let (mut acceptor, mut rest) = (Acceptor::default(), data);
    loop {
        if acceptor.read_tls(&mut rest).ok()? == 0 {
            return None;
        }
        if let Some(accepted) = acceptor.accept().ok()? {
            let hello = accepted.client_hello();
            return Some(hello.server_name().map(|name| name.parse().expect("rustls takes host names only")));
        }
    }
}

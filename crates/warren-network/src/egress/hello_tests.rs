use std::sync::Arc;

use proptest::prelude::*;
use rustls::pki_types::ServerName as Server;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

/// A greeting as a client writes it.
fn greeting(server: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let server = Server::try_from(server.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), server).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &sized(content)].concat()
}

fn sized(content: &[u8]) -> Vec<u8> {
    [&u16::try_from(content.len()).unwrap().to_be_bytes()[..], content].concat()
}

fn names(names: &[&[u8]]) -> Vec<u8> {
    let list: Vec<u8> = names.iter().flat_map(|name| [&[0][..], &sized(name)].concat()).collect();
    extension(0, &sized(&list))
}

/// A greeting with these extensions, in one record.
pub(crate) fn handmade(extensions: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend(sized(&[0x13, 0x01]));
    body.extend([1, 0]);
    body.extend(sized(&extensions.concat()));
    record(&message(&body))
}

/// A greeting to a server, with an encrypted one inside.
pub(crate) fn encrypted(server: &str) -> Vec<u8> {
    handmade(&[names(&[server.as_bytes()]), extension(0xfe0d, &[0; 40])])
}

/// A greeting that names nobody.
pub(crate) fn nameless() -> Vec<u8> {
    handmade(&[extension(43, &[2, 3, 4])])
}

pub(crate) fn to(server: &[u8]) -> Vec<u8> {
    handmade(&[names(&[server])])
}

fn message(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1][..], &length[1..], body].concat()
}

fn record(fragment: &[u8]) -> Vec<u8> {
    [&[22, 3, 1][..], &sized(fragment)].concat()
}

fn name_of(bytes: &[u8]) -> Option<String> {
    match read(bytes) {
        Greeting::Whole(hello) => hello.name().map(ToString::to_string),
        Greeting::Unfinished | Greeting::Malformed => None,
    }
}

#[test]
fn a_real_clients_greeting_says_its_server() {
    assert_eq!(name_of(&greeting("Example.com")).as_deref(), Some("example.com"));
    let Greeting::Whole(hello) = read(&greeting("192.0.2.1")) else { panic!("whole") };
    assert_eq!(hello.server, ServerName::Absent, "an address is no name");
}

#[test]
fn every_part_of_a_greeting_is_unfinished_and_never_something_else() {
    let whole = greeting("example.com");
    for length in 0..whole.len() {
        assert_eq!(read(&whole[..length]), Greeting::Unfinished, "{length} of {}", whole.len());
    }
}

#[test]
fn a_greeting_in_many_records_is_the_same_greeting() {
    let whole = greeting("example.com");
    let fragments: Vec<u8> = whole[5..].chunks(3).flat_map(record).collect();
    assert_eq!(name_of(&fragments).as_deref(), Some("example.com"));
}

#[test]
fn what_is_hidden_or_missing_is_no_name() {
    assert_eq!(name_of(&encrypted("example.com")), None);
    assert_eq!(name_of(&nameless()), None);
    for server in
        [&b"a\0.com"[..], b"192.0.2.1", b"", b"a b", b"\xff\xfe", b"*.example.com", b"a%00.com", b"a\r\n.com"]
    {
        let Greeting::Whole(hello) = read(&to(server)) else { panic!("{server:?}") };
        assert_eq!(hello.name(), None, "{server:?}");
        assert!(hello.shown().is_none_or(|text| !text.bytes().any(|byte| byte.is_ascii_control())));
    }
}

#[test]
fn who_names_two_servers_names_none() {
    assert_eq!(read(&handmade(&[names(&[b"a.com"]), names(&[b"b.com"])])), Greeting::Malformed);
    assert_eq!(read(&handmade(&[names(&[b"a.com", b"b.com"])])), Greeting::Malformed);
}

#[test]
fn lengths_that_lie_are_found_out() {
    let mut too_long = record(&message(&[0; 40]));
    too_long[8] = 200;
    assert_eq!(read(&too_long), Greeting::Unfinished, "more records could follow");
    assert_eq!(read(&record(&[1, 255, 255, 255])), Greeting::Malformed, "nobody greets at such length");
    assert_eq!(read(&[22, 3, 1, 0, 0, 22]), Greeting::Malformed, "an empty record");
    assert_eq!(read(&[22, 3, 1, 255, 255]), Greeting::Malformed, "a record that is too large");
    assert_eq!(read(&record(&[2, 0, 0, 1, 0])), Greeting::Malformed, "a server's");
    let endless: Vec<u8> =
        record(&[1, 0, 120, 0]).into_iter().chain(record(&[9; 16_384])).chain(record(&[9; 16_384])).collect();
    assert!(!matches!(read(&endless), Greeting::Unfinished));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        read(&bytes);
        read(&record(&bytes[..bytes.len().min(500)]));
        read(&record(&message(&bytes)));
    }

    #[test]
    fn no_damage_makes_another_name(at in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = to(b"example.com");
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(name) = name_of(&bytes) {
            let differing = name.bytes().zip(*b"example.com").filter(|(one, other)| one != other).count();
            prop_assert!(differing <= 1 || name.len() != 11, "{name}");
        }
    }

    #[test]
    fn whoever_can_be_named_is_named(name in "[a-z]{1,20}\\.[a-z]{2,5}", pieces in 1_usize..40) {
        let whole = to(name.as_bytes());
        let cut: Vec<u8> = whole[5..].chunks(pieces).flat_map(record).collect();
        prop_assert_eq!(name_of(&cut), Some(name));
    }
}

use proptest::prelude::*;
use warren_testkit::FakeRandom;

use super::*;

fn keys(seed: u64) -> LinkKeys {
    LinkKeys::random(&FakeRandom::new(seed))
}

fn sandbox(number: u8) -> SandboxId {
    SandboxId::from_random([number; 16])
}

fn link() -> Link {
    Link { methods: Methods::All, path: "/app".to_owned(), expires_unix_s: 1000 }
}

#[test]
fn a_link_is_good_for_its_port_until_its_time_is_over() {
    let (keys, id) = (keys(1), sandbox(1));
    let text = link().sign(&keys, &id, 8000);
    assert_eq!(Link::read(&text, &keys, (&id, 8000), 999), Ok(link()));
    assert_eq!(Link::read(&text, &keys, (&id, 8000), 1000), Err(BadLink));
    assert_eq!(Link::read(&text, &keys, (&id, 8001), 1), Err(BadLink));
    assert_eq!(Link::read(&text, &keys, (&sandbox(2), 8000), 1), Err(BadLink));
    assert_eq!(Link::read(&text, &self::keys(2), (&id, 8000), 1), Err(BadLink));
}

#[test]
fn no_bit_of_a_link_can_be_changed() {
    let (keys, id) = (keys(1), sandbox(1));
    let text = link().sign(&keys, &id, 8000);
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            assert_eq!(Link::read(&changed, &keys, (&id, 8000), 1), Err(BadLink), "{changed}");
        }
    }
}

#[test]
fn fields_cannot_be_dropped_moved_or_written_otherwise() {
    let (keys, id) = (keys(1), sandbox(1));
    let text = link().sign(&keys, &id, 8000);
    let fields: Vec<&str> = text.split('.').collect();
    let read = |fields: &[&str]| Link::read(&fields.join("."), &keys, (&id, 8000), 1);
    for left_out in 0..fields.len() {
        let mut fewer = fields.clone();
        fewer.remove(left_out);
        assert_eq!(read(&fewer), Err(BadLink));
        let mut empty = fields.clone();
        empty[left_out] = "";
        assert_eq!(read(&empty), Err(BadLink));
        for other in 0..left_out {
            let mut moved = fields.clone();
            moved.swap(left_out, other);
            assert_eq!(read(&moved), Err(BadLink));
        }
    }
    for expiry in ["-1", "1001", "99999999999999999999999999", "01000", "1000.0", "", "+1000"] {
        let mut other = fields.clone();
        other[2] = expiry;
        assert_eq!(read(&other), Err(BadLink), "{expiry}");
    }
    for whole in
        ["", ".", ".....", "1.....", &text[1..], &format!("{text}="), &format!("{text}."), &"1.".repeat(9000)]
    {
        assert_eq!(Link::read(whole, &keys, (&id, 8000), 1), Err(BadLink), "{whole}");
    }
}

#[test]
fn a_link_is_good_for_its_methods_and_paths_only() {
    let read = Link { methods: Methods::Read, ..link() };
    assert!(read.allows(&Method::GET, "/app/x", false) && read.allows(&Method::HEAD, "/app", false));
    assert!(!read.allows(&Method::POST, "/app", false) && !read.allows(&Method::GET, "/app", true));
    assert!(link().allows(&Method::DELETE, "/app/", true));
    for path in [
        "/",
        "/apple",
        "/other",
        "/app/../other",
        "/app/%2e%2E/other",
        "/app/..%2fother",
        "/app/a\\b",
        "/App",
    ] {
        assert!(!link().allows(&Method::GET, path, false), "{path}");
    }
    let all = Link { path: "/".to_owned(), ..link() };
    assert!(all.allows(&Method::GET, "/anything/../at/all", false));
}

#[test]
fn a_token_opens_one_port_of_one_sandbox_with_any_key_that_is_believed() {
    let (old, id) = (keys(1), sandbox(1));
    let text = token(&old, &id, 80);
    assert!(is_token(&text, &old, &id, 80));
    assert!(!is_token(&text, &old, &id, 81) && !is_token(&text, &old, &sandbox(2), 80));
    assert!(!is_token("", &old, &id, 80) && !is_token(&text[1..], &old, &id, 80));
    let newer = keys(2);
    assert!(!is_token(&text, &newer, &id, 80));
    let both = format!(
        r#"{{"keys":[{},{}]}}"#,
        first_of(&serde_json::to_value(&newer).unwrap()),
        first_of(&serde_json::to_value(&old).unwrap())
    );
    let both: LinkKeys = serde_json::from_str(&both).unwrap();
    assert!(is_token(&text, &both, &id, 80) && is_token(&token(&both, &id, 80), &newer, &id, 80));
}

fn first_of(keys: &serde_json::Value) -> &serde_json::Value {
    &keys["keys"][0]
}

proptest! {
    #[test]
    fn whatever_is_read_was_signed(text in ".{0,200}") {
        prop_assert_eq!(Link::read(&text, &keys(1), (&sandbox(1), 80), 1), Err(BadLink));
    }
}

use std::collections::VecDeque;
use std::convert::Infallible;

use http_body_util::BodyExt as _;
use proptest::prelude::*;
use warren_core::network::{Injection, Secret, SecretRecord};

use super::*;

fn injections(values: &[&str]) -> Injections {
    let secret = |value: &&str| {
        let record = SecretRecord {
            name: "token".parse().unwrap(),
            hosts: Vec::new(),
            injection: Injection::Placeholder { placeholder: "placeholder".to_owned() },
            created_unix_ms: 0,
            changed_unix_ms: 0,
        };
        Secret { record, value: (*value).to_owned() }
    };
    Injections::new(values.iter().map(secret).collect())
}

fn scrubbed(values: &[&str], pieces: &[&str]) -> String {
    let mut scrubber = Scrubber::new(&injections(values));
    let mut all = Vec::new();
    for piece in pieces {
        all.extend(scrubber.feed(Bytes::copy_from_slice(piece.as_bytes())));
    }
    all.extend(scrubber.rest());
    String::from_utf8(all).unwrap()
}

#[test]
fn a_secret_is_blotted_wherever_it_is_cut() {
    let text = "one abcabcabd two abcabcabd";
    for cut in 0..text.len() {
        let (a, b) = text.split_at(cut);
        assert_eq!(scrubbed(&["abcabcabd"], &[a, b]), "one ********* two *********", "{cut}");
    }
    let letters: Vec<String> = text.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    assert_eq!(scrubbed(&["abcabcabd"], &letters), "one ********* two *********");
    assert_eq!(scrubbed(&["abcabcabd"], &["abcabcab"]), "abcabcab");
    assert_eq!(scrubbed(&["short"], &["short"]), "short");
    assert_eq!(scrubbed(&["abcabcabd", "12345678"], &["123456", "78abcabc", "abd."]), "*****************.");
}

#[test]
fn what_is_shown_early_does_not_help_the_rest_through() {
    let mut scrubber = Scrubber::new(&injections(&["abcdefghijkl"]));
    let mut all = Vec::new();
    for letter in "..abcdefghijkl..".chars() {
        all.extend(scrubber.feed(Bytes::from(letter.to_string())));
        if scrubber.may_show() {
            all.extend(scrubber.show());
        }
    }
    all.extend(scrubber.rest());
    assert_eq!(String::from_utf8(all).unwrap(), "..abc*********..");
}

proptest! {
    #[test]
    fn the_length_stays_and_no_secret_does(
        pieces in proptest::collection::vec("[ab]{0,12}", 0..12),
        secret in "[ab]{8,10}",
        show in proptest::collection::vec(any::<bool>(), 12),
    ) {
        let mut scrubber = Scrubber::new(&injections(&[&secret]));
        let mut all = Vec::new();
        for (piece, show) in pieces.iter().zip(show) {
            all.extend(scrubber.feed(Bytes::copy_from_slice(piece.as_bytes())));
            if show && scrubber.may_show() {
                all.extend(scrubber.show());
            }
        }
        all.extend(scrubber.rest());
        let text = String::from_utf8(all).unwrap();
        prop_assert_eq!(text.len(), pieces.concat().len());
        prop_assert!(!text.contains(&secret), "{}", text);
    }
}

/// A body that gives its frames one by one, and waits for ever at `None`.
struct Frames(VecDeque<Option<Frame<Bytes>>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.front() {
            Some(None) => Poll::Pending,
            _ => Poll::Ready(self.0.pop_front().flatten().map(Ok)),
        }
    }
}

fn data(text: &str) -> Option<Frame<Bytes>> {
    Some(Frame::data(Bytes::copy_from_slice(text.as_bytes())))
}

#[tokio::test]
async fn a_body_is_scrubbed_to_its_trailers() {
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-echo", http::HeaderValue::from_static("abcdefgh"));
    let frames = Frames([data("1abcd"), data("efgh2abc"), Some(Frame::trailers(trailers))].into());
    let whole = Scrubbed::new(frames, injections(&["abcdefgh"])).collect().await.unwrap();
    assert_eq!(whole.trailers().unwrap()["x-echo"], "********");
    assert_eq!(whole.to_bytes(), "1********2abc");
}

#[tokio::test]
async fn a_message_that_ends_as_a_secret_begins_does_not_wait_for_the_next() {
    let frames = Frames([data("message a"), None].into());
    let mut body = Scrubbed::new(frames, injections(&["abcdefgh"]));
    let mut next = async || body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(next().await, "message ");
    assert_eq!(next().await, "a");
}

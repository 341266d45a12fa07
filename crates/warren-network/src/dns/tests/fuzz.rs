//! No input breaks anything, and no closed address gets through.

use std::sync::LazyLock;

use hickory_proto::op::{Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::{RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};
use proptest::prelude::*;
use warren_core::network::{NetworkMode, closed};
use warren_core::{HostName, NetworkPolicy};

use super::support::*;
use crate::book::Book;
use crate::dns::exchange::answer_to;
use crate::dns::plan::{Plan, Step, reverse};
use crate::dns::question::{Carrier, Question, Wants, host_name, wire_name};
use crate::dns::sift::Sifted;
use crate::dns::{answer_here, reply_with};

/// Bytes of a message, with some of them changed, cut off or added: what random bytes never come
/// near to.
fn damaged(message: &'static LazyLock<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    let tail = proptest::collection::vec(any::<u8>(), 0..32);
    (changes, any::<prop::sample::Index>(), any::<bool>(), tail).prop_map(|(changes, end, cut, tail)| {
        let mut bytes = message.to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        bytes.extend(tail);
        bytes
    })
}

static QUESTION: LazyLock<Vec<u8>> =
    LazyLock::new(|| extended(question("www.a.example", RecordType::A), 1232).to_vec().unwrap());

static ANSWER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut answer = answered(
        &extended(question("www.a.example", RecordType::A), 1232),
        &records(&[
            "www.a.example 60 CNAME b.example",
            "b.example 60 CNAME c.example",
            "c.example 60 A 10.0.0.1",
            "c.example 60 A 192.0.2.1",
            "www.a.example 60 A 127.0.0.1",
        ]),
    );
    answer.answers.push(record("c.example 60 AAAA ::ffff:10.0.0.1"));
    answer.authorities = records(&["example 60 SOA ns.example", "example 60 A 10.0.0.2"]);
    answer.additionals = records(&["c.example 60 A 10.0.0.3", "c.example 60 TXT hello"]);
    answer.to_vec().unwrap()
});

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..600), damaged(&QUESTION), damaged(&ANSWER)]
}

fn policies() -> impl Strategy<Value = NetworkPolicy> {
    prop_oneof![
        Just(NetworkPolicy::none()),
        Just(NetworkPolicy::public()),
        Just(NetworkPolicy::of(NetworkMode::Learn)),
        Just(policy(NetworkMode::Allow, &["*.example"], &["b.example"])),
        Just(policy(NetworkMode::Ask, &["c.example"], &[])),
    ]
}

fn carriers() -> impl Strategy<Value = Carrier> {
    prop_oneof![Just(Carrier::Packet), Just(Carrier::Stream)]
}

/// Addresses in any section of an answer that are closed to all.
fn closed_addresses(answer: &Message) -> Vec<String> {
    let address = |record: &Record| match &record.data {
        RData::A(address) => Some(address.0.into()),
        RData::AAAA(address) => Some(address.0.into()),
        _ => None,
    };
    let all = answer.all_sections().filter_map(address);
    all.filter(|address| closed(*address, 0, &[]).is_some()).map(|address| address.to_string()).collect()
}

/// The bytes that would be sent for a question if the servers sent these.
fn forwarded(asked: &Question, upstream: &[u8], carrier: Carrier) -> Option<Vec<u8>> {
    let mut answer = Message::from_vec(upstream).ok()?;
    // As if it was an answer to the very question: that is checked before, and would leave little
    // to try.
    answer.metadata.response_code = ResponseCode::NoError;
    let sifted = Sifted::of(&asked.query, answer, asked.wants()).without_closed(&asked.query, &[]);
    asked.encode(&reply_with(asked, sifted), carrier)
}

/// `PROPTEST_CASES` may ask for more.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.max(4096), failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_bytes_break_the_proxy(sent in bytes(), upstream in bytes(), policy in policies(), carrier in carriers()) {
        let Ok(asked) = Question::read(&sent) else { return Ok(()) };
        let book = Book::new(Vec::new());
        let guest = enter(&book, 1, [192, 0, 2, 200].into(), policy);
        let (answer, upstream_heard) = match Plan::of(&book, &guest, &asked.query).step {
            Step::Ask(name) => {
                prop_assert!(!guest.policies.borrow()[0].is_none());
                prop_assert!(name.is_none_or(|name| wire_name(&name).is_some()));
                (forwarded(&asked, &upstream, carrier), true)
            }
            here => (asked.encode(&answer_here(&asked, &here), carrier), false),
        };
        let Some(answer) = answer else { return Ok(()) };
        prop_assert!(carrier == Carrier::Stream || answer.len() <= 1232);
        let answer = Message::from_vec(&answer).unwrap();
        let closed = closed_addresses(&answer);
        let own = ["169.254.77.1", "127.0.0.1", "::1"];
        let only_own = !upstream_heard && closed.iter().all(|address| own.contains(&address.as_str()));
        prop_assert!(closed.is_empty() || only_own, "{closed:?}");
    }

    #[test]
    fn no_answer_of_a_server_leads_to_a_closed_address(upstream in damaged(&ANSWER), carrier in carriers()) {
        for wanted in [RecordType::A, RecordType::AAAA, RecordType::TXT, RecordType::CNAME] {
            let sent = extended(question("www.a.example", wanted), 1232).to_vec().unwrap();
            let asked = Question::read(&sent).unwrap();
            let Some(answer) = forwarded(&asked, &upstream, carrier) else { continue };
            let answer = Message::from_vec(&answer).unwrap();
            prop_assert_eq!(closed_addresses(&answer), Vec::<String>::new());
            prop_assert_eq!(answer.id, 0x7a7a);
        }
    }

    #[test]
    fn only_an_answer_to_the_question_is_heard(upstream in bytes()) {
        let mut request = question("www.a.example", RecordType::A);
        request.metadata.id = upstream.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        if let Ok(answer) = answer_to(&request, &upstream) {
            prop_assert_eq!(answer.message_type, MessageType::Response);
            let failed = !matches!(answer.response_code, ResponseCode::NoError | ResponseCode::NXDomain);
            prop_assert!(answer.truncation || failed || answer.queries == request.queries);
        }
    }

    #[test]
    fn what_is_pinned_is_what_the_sandbox_hears(upstream in damaged(&ANSWER)) {
        let Ok(answer) = Message::from_vec(&upstream) else { return Ok(()) };
        let query = Query::query(wire("www.a.example"), RecordType::A);
        let sifted = Sifted::of(&query, answer, Wants::default()).without_closed(&query, &[]);
        let heard = sifted.answers.iter().filter(|record| record.record_type() == RecordType::A).count();
        prop_assert_eq!(sifted.addresses().len(), heard);
        prop_assert!(sifted.answers.iter().all(|record| u64::from(record.ttl) >= sifted.ttl().as_secs()));
    }

    #[test]
    fn a_name_is_the_same_on_the_wire_and_in_a_rule(labels in proptest::collection::vec("[a-zA-Z0-9._ -]{1,12}|\\PC{1,4}", 1..6)) {
        let Ok(name) = hickory_proto::rr::Name::from_labels(labels.iter().map(String::as_bytes)) else { return Ok(()) };
        let Some(host) = host_name(&name) else { return Ok(()) };
        prop_assert_eq!(wire_name(&host).unwrap(), name.clone());
        prop_assert_eq!(host.as_str().split('.').count(), name.iter().count());
        let text: HostName = host.as_str().parse().unwrap();
        prop_assert_eq!(text, host);
    }

    #[test]
    fn every_address_is_found_in_its_reverse_name(v4 in any::<[u8; 4]>(), v6 in any::<[u8; 16]>()) {
        for address in [std::net::IpAddr::from(v4), std::net::IpAddr::from(v6)] {
            let name = host_name(&hickory_proto::rr::Name::from(address)).unwrap();
            let network = reverse(&name).unwrap();
            prop_assert_eq!(network.address(), address);
            prop_assert_eq!(network.prefix(), if address.is_ipv4() { 32 } else { 128 });
        }
    }

    #[test]
    fn no_name_breaks_the_reading_of_reverse_names(name in "([0-9a-f]{1,4}\\.){0,40}(in-addr|ip6)\\.arpa") {
        if let Ok(name) = name.parse::<HostName>() {
            prop_assert!(reverse(&name).is_some());
        }
    }
}

#[test]
fn what_is_damaged_is_often_still_read() {
    // Otherwise the properties above would say nothing.
    assert!(Message::read(&mut BinDecoder::new(&ANSWER)).is_ok() && Question::read(&QUESTION).is_ok());
}

//! The parts of a server's answer that reach a sandbox.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::svcb::{IpHint, SvcParamKey, SvcParamValue};
use hickory_proto::rr::rdata::{A, HTTPS, NULL, SVCB};
use hickory_proto::rr::{RData, Record, RecordType};
use warren_core::network::{NetworkMode, NetworkPolicy};

use super::support::*;
use crate::dns::question::Carrier;

async fn public(texts: &[&str]) -> World {
    World::new(NetworkPolicy::public(), always(records(texts))).await
}

#[tokio::test]
async fn closed_addresses_are_taken_out_and_told() {
    let world = public(&[
        "a.example 60 A 10.0.0.1",
        "a.example 60 A 192.0.2.1",
        "a.example 60 A 169.254.169.254",
        "a.example 60 AAAA ::ffff:10.0.0.1",
        "a.example 60 AAAA 64:ff9b::a00:1",
        "a.example 60 AAAA 2001:db8::1",
        "a.example 60 AAAA fd00::1",
    ])
    .await;
    assert_eq!(shown(&world.ask("a.example", RecordType::A).await), ["a.example. 60 A 192.0.2.1"]);
    assert_eq!(shown(&world.ask("a.example", RecordType::AAAA).await), ["a.example. 60 AAAA 2001:db8::1"]);
    assert!(world.pinned("a.example", "192.0.2.1") && world.pinned("a.example", "2001:db8::1"));
    assert!(!world.pinned("a.example", "10.0.0.1") && !world.pinned("a.example", "fd00::1"));
    let told = "Denied a.example 10.0.0.0/8 is closed to every sandbox (a private network)";
    assert_eq!(world.told()[0], told);
}

#[tokio::test]
async fn a_name_with_nothing_but_closed_addresses_does_not_exist() {
    for address in ["127.0.0.1", "169.254.77.1", "10.213.0.2", "0.0.0.0", "255.255.255.255"] {
        let world = public(&["b.example 60 CNAME a.example", &format!("a.example 60 A {address}")]).await;
        let answer = world.ask("b.example", RecordType::A).await;
        assert_eq!((answer.response_code, answer.answers.len()), (ResponseCode::NXDomain, 0), "{address}");
        assert!(!world.pinned("b.example", address));
        assert_eq!(world.told().len(), 1);
    }
}

#[tokio::test]
async fn what_the_operator_excepts_stays_for_whatever_port() {
    let answers = records(&["db.example 60 A 10.1.2.3", "db.example 60 A 10.1.2.4"]);
    let world = World::with_exceptions(NetworkPolicy::public(), &["10.1.2.3:5432"], always(answers)).await;
    assert_eq!(shown(&world.ask("db.example", RecordType::A).await), ["db.example. 60 A 10.1.2.3"]);
    assert!(world.pinned("db.example", "10.1.2.3"));
}

#[tokio::test]
async fn a_name_that_turns_private_is_refused() {
    let turn = AtomicUsize::new(0);
    let world = World::new(policy(NetworkMode::Allow, &["rebind.example"], &[]), move |request, _| {
        let address = if turn.fetch_add(1, Ordering::Relaxed) == 0 { "192.0.2.1" } else { "169.254.169.254" };
        let answer = answered(request, &[record(&format!("rebind.example 0 A {address}"))]);
        vec![answer.to_vec().unwrap()]
    })
    .await;
    assert_eq!(shown(&world.ask("rebind.example", RecordType::A).await), ["rebind.example. 0 A 192.0.2.1"]);
    let second = world.ask("rebind.example", RecordType::A).await;
    assert_eq!((second.response_code, second.answers.len()), (ResponseCode::NXDomain, 0));
    assert!(world.pinned("rebind.example", "192.0.2.1"), "the first stays for its time");
    assert!(!world.pinned("rebind.example", "169.254.169.254"));
}

#[tokio::test]
async fn aliases_are_followed_and_only_the_asked_name_is_pinned() {
    let world = public(&[
        "www.example 3000 CNAME b.example",
        "C.example 20 A 192.0.2.1",
        "b.example 500 CNAME c.EXAMPLE",
        "stranger.example 60 A 192.0.2.66",
        "stranger.example 60 CNAME www.example",
    ])
    .await;
    let answer = world.ask("www.example", RecordType::A).await;
    let expected = [
        "www.example. 3000 CNAME b.example.",
        "C.example. 20 A 192.0.2.1",
        "b.example. 500 CNAME c.EXAMPLE.",
    ];
    assert_eq!(shown(&answer), expected);
    assert!(world.pinned("www.example", "192.0.2.1"));
    assert!(!world.pinned("c.example", "192.0.2.1") && !world.pinned("www.example", "192.0.2.66"));
}

#[tokio::test]
async fn an_alias_outside_the_list_is_what_the_listed_name_stands_for() {
    let answers = records(&["api.example 60 CNAME edge.cdn.test", "edge.cdn.test 60 A 192.0.2.1"]);
    let world = World::new(policy(NetworkMode::Allow, &["api.example"], &[]), always(answers)).await;
    assert_eq!(world.ask("api.example", RecordType::A).await.answers.len(), 2);
    assert!(world.pinned("api.example", "192.0.2.1") && !world.pinned("edge.cdn.test", "192.0.2.1"));
}

#[tokio::test]
async fn a_circle_of_aliases_ends() {
    let world = public(&["a.example 60 CNAME b.example", "b.example 60 CNAME a.example"]).await;
    assert_eq!(world.ask("a.example", RecordType::A).await.answers.len(), 2);
    let long: Vec<String> = (0..40).map(|n| format!("n{n}.example 60 CNAME n{}.example", n + 1)).collect();
    let mut long: Vec<Record> = long.iter().map(|text| record(text)).collect();
    long.push(record("n40.example 60 A 192.0.2.1"));
    let world = World::new(NetworkPolicy::public(), always(long)).await;
    world.ask("n0.example", RecordType::A).await;
    assert!(!world.pinned("n0.example", "192.0.2.1"), "nobody has so many names");
}

#[tokio::test]
async fn what_a_server_adds_is_left_out() {
    let world = World::new(NetworkPolicy::public(), |request, _| {
        let mut answer = answered(request, &records(&["a.example 60 TXT hello"]));
        answer.answers.push(record("a.example 60 A 192.0.2.66"));
        answer.answers.push(record("a.example 60 AAAA fd00::9"));
        let hint = SvcParamValue::Ipv4Hint(IpHint(vec![A::new(10, 0, 0, 9)]));
        let service = SVCB::new(1, wire("a.example"), vec![(SvcParamKey::Ipv4Hint, hint)]);
        answer.answers.push(Record::from_rdata(wire("a.example"), 60, RData::HTTPS(HTTPS(service))));
        answer.additionals.push(record("a.example 60 A 10.0.0.9"));
        answer.authorities.push(record("a.example 60 A 10.0.0.9"));
        vec![answer.to_vec().unwrap()]
    })
    .await;
    let answer = world.ask("a.example", RecordType::TXT).await;
    assert_eq!(shown(&answer), ["a.example. 60 TXT hello"]);
    assert!(answer.additionals.is_empty() && answer.authorities.is_empty());
    assert!(!world.pinned("a.example", "192.0.2.66"));
}

#[tokio::test]
async fn why_there_is_no_answer_is_passed_on() {
    let world = World::new(NetworkPolicy::public(), |request, _| {
        let mut answer = failed(request, ResponseCode::NXDomain);
        answer.authorities = records(&["example 90000 SOA ns.example", "example 60 A 10.0.0.9"]);
        vec![answer.to_vec().unwrap()]
    })
    .await;
    let answer = world.ask("no.example", RecordType::A).await;
    assert_eq!(answer.response_code, ResponseCode::NXDomain);
    assert_eq!(
        answer.authorities.iter().map(|record| (record.record_type(), record.ttl)).collect::<Vec<_>>(),
        [(RecordType::SOA, 3600)]
    );
}

#[tokio::test]
async fn no_answer_outlives_its_pin() {
    let world = public(&["a.example 4294967295 A 192.0.2.1"]).await;
    assert_eq!(shown(&world.ask("a.example", RecordType::A).await), ["a.example. 3600 A 192.0.2.1"]);
}

#[tokio::test]
async fn signatures_are_for_those_who_want_them_and_verified_means_complete() {
    let signed = |request: &Message, _| {
        let mut answer = answered(request, &records(&["a.example 60 A 192.0.2.1"]));
        let signature = RData::Unknown { code: RecordType::RRSIG, rdata: NULL::with(vec![7; 40]) };
        answer.answers.push(Record::from_rdata(wire("a.example"), 60, signature));
        answer.metadata.authentic_data = true;
        vec![answer.to_vec().unwrap()]
    };
    let world = World::new(NetworkPolicy::public(), signed).await;
    let plain = world.ask("a.example", RecordType::A).await;
    assert_eq!((plain.answers.len(), plain.authentic_data), (1, false));
    let mut asked = extended(question("a.example", RecordType::A), 1232);
    asked.edns.as_mut().unwrap().set_dnssec_ok(true);
    asked.metadata.checking_disabled = true;
    let answer = world.ask_with(&asked, Carrier::Packet).await;
    assert_eq!((answer.answers.len(), answer.authentic_data), (2, true));
    assert!(answer.edns.as_ref().unwrap().flags().dnssec_ok);
    let (_, sent) = world.fake.asked().pop().unwrap();
    assert!(sent.checking_disabled && sent.edns.unwrap().flags().dnssec_ok);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_says_so_and_comes_whole_over_a_stream() {
    let many: Vec<Record> = (1..=60).map(|n| record(&format!("many.example 60 A 192.0.2.{n}"))).collect();
    let world = World::new(NetworkPolicy::public(), always(many)).await;
    let short = world.ask("many.example", RecordType::A).await;
    assert!(short.truncation && short.answers.is_empty());
    let longer = extended(question("many.example", RecordType::A), 65_000);
    assert_eq!(world.ask_with(&longer, Carrier::Packet).await.answers.len(), 60);
    assert_eq!(
        world.ask_with(&question("many.example", RecordType::A), Carrier::Stream).await.answers.len(),
        60
    );
}

#[tokio::test]
async fn more_records_than_anybody_needs_are_left_out() {
    let flood: Vec<Record> = (0..2000)
        .map(|n| record(&format!("flood.example 60 A 198.51.{}.{}", 100 + n / 250, n % 250)))
        .collect();
    let world = World::new(NetworkPolicy::public(), move |request, carrier| match carrier {
        Carrier::Stream => vec![answered(request, &flood).to_vec().unwrap()],
        Carrier::Packet => {
            let mut answer = failed(request, ResponseCode::NoError);
            answer.metadata.truncation = true;
            vec![answer.to_vec().unwrap()]
        }
    })
    .await;
    let asked = question("flood.example", RecordType::A);
    assert_eq!(world.ask_with(&asked, Carrier::Stream).await.answers.len(), 64);
}

#[tokio::test]
async fn a_resolved_name_has_all_of_its_addresses_for_the_shortest_time() {
    let world = public(&[
        "www.example 300 CNAME a.example",
        "a.example 40 A 192.0.2.1",
        "a.example 20 AAAA 2001:db8::1",
        "a.example 60 A 10.0.0.1",
    ])
    .await;
    let resolved = world.names.upstream.resolve(&host("www.example")).await.unwrap();
    let addresses: Vec<String> = resolved.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["192.0.2.1", "10.0.0.1", "2001:db8::1"], "whoever dials judges");
    assert_eq!(resolved.ttl, Duration::from_secs(20));
    assert_eq!(resolved.aliases, [host("a.example"), host("a.example")]);
    let only_v4 = public(&["b.example 40 A 192.0.2.1"]).await;
    assert_eq!(only_v4.names.upstream.resolve(&host("b.example")).await.unwrap().addresses.len(), 1);
    let error = only_v4.names.upstream.resolve(&host("c.example")).await.unwrap_err();
    assert!(matches!(error, crate::dns::UpstreamError::NoSuchName), "{error}");
}

//! Servers that fail, lie or are not there.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::RecordType;
use tokio::net::UdpSocket;
use warren_core::network::NetworkPolicy;

use super::support::*;
use crate::dns::question::{Carrier, Wants};
use crate::dns::{Servers, Upstream, UpstreamError};

fn good() -> impl Fn(&Message, Carrier) -> Vec<Vec<u8>> + Send + Sync + 'static {
    always(records(&["a.example 60 A 192.0.2.1"]))
}

fn query() -> Query {
    Query::query(wire("a.example"), RecordType::A)
}

async fn ask(servers: &[SocketAddr]) -> (Result<Message, UpstreamError>, Duration) {
    let upstream = Upstream::new(Servers::new(servers));
    let start = Instant::now();
    let answer = upstream.ask(&query(), Wants::default()).await;
    (answer, start.elapsed())
}

/// Less than the time after which the next server is asked, or the same one again.
const AT_ONCE: Duration = Duration::from_millis(700);

/// Tries until it took no time once: a busy machine may hold up any of them.
async fn in_time(mut attempt: impl AsyncFnMut() -> Duration) {
    for _ in 0..10 {
        if attempt().await < AT_ONCE {
            return;
        }
    }
    panic!("it is waited for");
}

/// An address where nobody listens.
async fn nobody() -> SocketAddr {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn where_nobody_listens_the_failure_is_known_at_once() {
    in_time(async || {
        let (answer, took) = ask(&[nobody().await, nobody().await]).await;
        assert!(matches!(answer, Err(UpstreamError::Exchange { .. })), "{answer:?}");
        took
    })
    .await;
    let world = World::new(NetworkPolicy::public(), good()).await;
    drop(world.fake);
    tokio::task::yield_now().await;
    let asked = question("a.example", RecordType::A).to_vec().unwrap();
    let answer = world.names.respond(&world.guest, &asked, Carrier::Packet).await.unwrap();
    assert_eq!(Message::from_vec(&answer).unwrap().response_code, ResponseCode::ServFail);
}

#[tokio::test]
async fn the_next_server_is_asked_and_remembered() {
    let living = Fake::new(good()).await;
    let silent = Fake::new(|_, _| Vec::new()).await;
    in_time(async || {
        let upstream = Upstream::new(Servers::new(&[silent.address, living.address]));
        let mut took = Vec::new();
        for _ in 0..2 {
            let start = Instant::now();
            assert_eq!(upstream.ask(&query(), Wants::default()).await.unwrap().answers.len(), 1);
            took.push(start.elapsed());
        }
        assert!(took[0] >= Duration::from_millis(900), "{took:?}");
        took[1]
    })
    .await;
}

#[tokio::test]
async fn a_lost_packet_is_sent_again() {
    let turn = AtomicUsize::new(0);
    let fake = Fake::new(move |request, _| {
        let lost = turn.fetch_add(1, Ordering::Relaxed) == 0;
        if lost { Vec::new() } else { good()(request, Carrier::Packet) }
    })
    .await;
    let (answer, _) = ask(&[fake.address]).await;
    assert_eq!(answer.unwrap().answers.len(), 1);
    assert_eq!(fake.asked().len(), 2);
}

#[tokio::test]
async fn servers_that_never_answer_are_given_up_before_clients_give_up() {
    let silent = Fake::new(|_, _| Vec::new()).await;
    let (answer, took) = ask(&[silent.address]).await;
    assert!(matches!(answer, Err(UpstreamError::Silent)), "{answer:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(silent.asked().len(), 2);
}

#[tokio::test]
async fn without_a_server_there_is_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::new(Servers::of_file(&folder.path().join("none")));
    let answer = upstream.ask(&query(), Wants::default()).await;
    assert!(matches!(answer, Err(UpstreamError::NoServer)), "{answer:?}");
}

#[tokio::test]
async fn guessed_answers_are_not_heard() {
    let fake = Fake::new(|request, _| {
        let bad = records(&["a.example 60 A 203.0.113.66"]);
        let mut other_id = answered(request, &bad);
        other_id.metadata.id ^= 1;
        let mut other_name = answered(request, &bad);
        other_name.queries = vec![Query::query(wire("b.example"), RecordType::A)];
        let mut other_type = answered(request, &bad);
        other_type.queries = vec![Query::query(wire("a.example"), RecordType::AAAA)];
        let mut no_question = answered(request, &bad);
        no_question.queries.clear();
        let mut question = request.clone();
        question.answers = bad;
        let guesses = [other_id, other_name, other_type, no_question, question];
        let mut packets: Vec<Vec<u8>> = guesses.iter().map(|message| message.to_vec().unwrap()).collect();
        packets.extend([Vec::new(), vec![0; 3], vec![0xff; 200]]);
        packets.extend(good()(request, Carrier::Packet));
        packets
    })
    .await;
    in_time(async || {
        let asked = fake.asked().len();
        let (answer, took) = ask(&[fake.address]).await;
        assert_eq!(shown(&answer.unwrap()), ["a.example. 60 A 192.0.2.1"]);
        assert!(took > AT_ONCE || fake.asked().len() == asked + 1, "it was asked again");
        took
    })
    .await;
}

#[tokio::test]
async fn who_was_not_asked_is_not_heard() {
    let silent = Fake::new(|_, _| Vec::new()).await;
    let upstream = Upstream::new(Servers::new(&[silent.address]));
    let asking = tokio::spawn(async move { upstream.ask(&query(), Wants::default()).await });
    let from = loop {
        match silent.last_from() {
            Some(from) => break from,
            None => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    // Even with the right id and to the right port.
    let (_, request) = silent.asked().pop().unwrap();
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let answer = answered(&request, &records(&["a.example 60 A 203.0.113.66"])).to_vec().unwrap();
    stranger.send_to(&answer, from).await.unwrap();
    assert!(matches!(asking.await.unwrap(), Err(UpstreamError::Silent)));
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_a_failure_at_once() {
    let fake = Fake::new(|request, _| {
        let mut bytes = good()(request, Carrier::Packet).remove(0);
        let end = bytes.len() - 3;
        bytes.truncate(end);
        vec![bytes]
    })
    .await;
    in_time(async || {
        let (answer, took) = ask(&[fake.address]).await;
        assert!(matches!(answer, Err(UpstreamError::Exchange { .. })), "{answer:?}");
        took
    })
    .await;
}

#[tokio::test]
async fn what_does_not_fit_a_packet_is_fetched_over_a_stream() {
    let fake = Fake::new(|request, carrier| {
        let mut answer = good()(request, carrier).remove(0);
        if carrier == Carrier::Packet {
            answer[2] |= 0x02;
            answer.truncate(40);
        }
        vec![answer]
    })
    .await;
    let (answer, _) = ask(&[fake.address]).await;
    assert_eq!(shown(&answer.unwrap()), ["a.example. 60 A 192.0.2.1"]);
    let carriers: Vec<Carrier> = fake.asked().iter().map(|(carrier, _)| *carrier).collect();
    assert_eq!(carriers, [Carrier::Packet, Carrier::Stream]);
}

#[tokio::test]
async fn a_server_without_edns_is_asked_without() {
    let fake = Fake::new(|request, carrier| {
        if request.edns.is_none() {
            return good()(request, carrier);
        }
        let mut answer = failed(request, ResponseCode::FormErr);
        answer.edns = None;
        vec![answer.to_vec().unwrap()]
    })
    .await;
    let (answer, _) = ask(&[fake.address]).await;
    assert_eq!(answer.unwrap().answers.len(), 1);
}

#[tokio::test]
async fn a_server_that_cannot_tell_is_asked_once_and_believed_last() {
    let broken = |request: &Message, _| vec![failed(request, ResponseCode::ServFail).to_vec().unwrap()];
    let (first, second) = (Fake::new(broken).await, Fake::new(good()).await);
    let (answer, _) = ask(&[first.address, second.address]).await;
    assert_eq!(answer.unwrap().answers.len(), 1);
    assert_eq!(first.asked().len(), 1);
    in_time(async || {
        let asked = first.asked().len();
        let (answer, took) = ask(&[first.address]).await;
        assert_eq!(answer.unwrap().response_code, ResponseCode::ServFail);
        assert!(took > AT_ONCE || first.asked().len() == asked + 1, "it was asked again");
        took
    })
    .await;
}

#[tokio::test]
async fn ids_and_ports_are_drawn_at_random() {
    let fake = Fake::new(good()).await;
    let upstream = Upstream::new(Servers::new(&[fake.address]));
    let mut ports = Vec::new();
    for _ in 0..200 {
        upstream.ask(&query(), Wants::default()).await.unwrap();
        ports.extend(fake.last_from().map(|from| from.port()));
    }
    let ids = fake.asked().iter().map(|(_, request)| request.id).collect();
    for (what, mut numbers) in [("ids", ids), ("ports", ports)] {
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.len() > 190, "{} different {what} of 200", numbers.len());
        let mut steps: Vec<u16> = numbers.windows(2).map(|pair| pair[1] - pair[0]).collect();
        steps.sort_unstable();
        steps.dedup();
        assert!(steps.len() > 50, "no pattern in {what}");
    }
}

use std::sync::mpsc;
use std::time::{Duration, Instant};

use warren_core::network::Protocol;

use super::lab::*;
use crate::refusals::{Refusal, Refusals};

/// A busy machine may stop for seconds at any line.
const LONG: Duration = Duration::from_secs(60);

/// The first outcome that is no silence.
fn answer(mut attempt: impl FnMut() -> Outcome) -> Outcome {
    let deadline = Instant::now() + LONG;
    loop {
        let outcome = attempt();
        if outcome != Outcome::Silence || Instant::now() > deadline {
            return outcome;
        }
    }
}

#[test]
fn what_is_refused_is_told_and_what_is_allowed_is_not() {
    let Some((mut lab, table)) = Lab::with_table() else { return };
    lab.serve_udp(Side::Internet, format!("{INTERNET}:9000").parse().unwrap(), "internet");
    let sandbox = lab.sandbox(1);
    table.put(&sandbox.under(&policy("allow 192.0.2.1:9000"))).unwrap();
    let (sender, heard) = mpsc::channel();
    let told = move |refusal: &Refusal, _| sender.send(*refusal).unwrap_or(());
    let refusals = lab.world.on_host(move || Refusals::hear(0, told).unwrap());
    assert_eq!(answer(|| sandbox.udp(INTERNET, 9000)), said("internet"));
    assert_eq!(answer(|| sandbox.udp(INTERNET, 9001)), Outcome::Refused);
    assert_eq!(answer(|| sandbox.udp(INTERNET_V6, 9000)), Outcome::Refused);
    assert_eq!(answer(|| sandbox.ping("10.1.2.3")), Outcome::Refused);
    let facts = |refusal: Refusal| {
        (refusal.source.to_string(), refusal.destination.to_string(), refusal.protocol, refusal.port)
    };
    let (v4, v6) = (v4(sandbox.place).to_string(), sandbox.place.v6().to_string());
    let refused = [
        (v4.clone(), INTERNET.to_owned(), Protocol::Udp, 9001),
        (v6, INTERNET_V6.to_owned(), Protocol::Udp, 9000),
        (v4, "10.1.2.3".to_owned(), Protocol::Icmp, 0),
    ];
    let mut told = Vec::new();
    while !refused.iter().all(|refusal| told.contains(refusal)) {
        told.push(facts(heard.recv_timeout(LONG).unwrap()));
    }
    drop(refusals);
    told.extend(heard.try_iter().map(facts));
    assert!(told.iter().all(|refusal| refused.contains(refusal)), "{told:?}");
}

#[test]
fn a_flood_of_refusals_is_not_told_whole() {
    let Some((lab, table)) = Lab::with_table() else { return };
    let sandbox = lab.sandbox(1);
    table.put(&sandbox.under(&policy("allow"))).unwrap();
    let (sender, heard) = mpsc::channel();
    let told = move |_: &Refusal, count| sender.send(count).unwrap_or(());
    let refusals = lab.world.on_host(move || Refusals::hear(0, told).unwrap());
    sandbox.inside(|| {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        for port in 1000..3000 {
            drop(socket.send_to(b"x", ("192.0.2.1", port)));
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    drop(refusals);
    let count = heard.try_iter().count();
    assert!((1..200).contains(&count), "{count}");
}

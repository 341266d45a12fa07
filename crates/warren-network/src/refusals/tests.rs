use std::sync::mpsc;

use warren_core::network::{NetworkPolicy, NetworkRule};
use warren_core::{NetworkMode, NetworkObserver, Owner, SandboxId};

use super::*;

fn refusal(port: u16) -> Refusal {
    Refusal {
        source: "10.213.0.1".parse().unwrap(),
        destination: "192.0.2.1".parse().unwrap(),
        protocol: Protocol::Udp,
        port,
        is_excess: false,
    }
}

#[test]
fn what_comes_again_is_counted() {
    let (mut recent, start) = (Recent::default(), Instant::now());
    assert!(recent.is_new(refusal(1), start));
    assert!(!recent.is_new(refusal(1), start) && !recent.is_new(refusal(1), start));
    assert!(recent.is_new(refusal(2), start));
    assert_eq!(recent.over(start + WINDOW / 2), []);
    assert_eq!(recent.over(start + WINDOW), [(refusal(1), 2)]);
    assert_eq!(recent.over(start + WINDOW * 2), []);
    assert!(recent.is_new(refusal(1), start + WINDOW));
}

#[test]
fn no_more_is_remembered_than_there_is_room_for() {
    let (mut recent, start) = (Recent::default(), Instant::now());
    let told = (0..=u16::MAX).filter(|port| recent.is_new(refusal(*port), start)).count();
    assert_eq!((told, recent.since.len()), (MOST, MOST));
}

struct Heard(mpsc::Sender<NetworkEntry>);

impl NetworkObserver for Heard {
    fn saw(&self, _: &SandboxId, entry: NetworkEntry) {
        drop(self.0.send(entry));
    }
}

/// The report of a refusal under a policy.
fn entry(policy: &NetworkPolicy, exceptions: Vec<NetworkRule>, refusal: &Refusal) -> Option<NetworkEntry> {
    let book = Book::new(exceptions);
    let (sender, heard) = mpsc::channel();
    book.observe(Arc::new(Heard(sender)));
    let id = SandboxId::from_random([7; 16]);
    let guest = Guest::new(id, Owner::first(), vec![refusal.source], std::slice::from_ref(policy));
    book.enter(guest);
    tell(&book, refusal, 3);
    heard.try_recv().ok()
}

#[test]
fn an_entry_says_what_decided() {
    let denied = entry(&NetworkPolicy::of(NetworkMode::Allow), Vec::new(), &refusal(9000)).unwrap();
    assert_eq!((denied.verdict, denied.port, denied.count), (NetworkVerdict::Denied, 9000, 3));
    assert_eq!(denied.rule, Why::NotListed.to_string());
    let asked = entry(&NetworkPolicy::of(NetworkMode::Ask), Vec::new(), &refusal(9000)).unwrap();
    assert_eq!(asked.verdict, NetworkVerdict::Asked);
    let public = NetworkPolicy::public();
    let closed = Refusal { destination: "10.1.2.3".parse().unwrap(), ..refusal(9000) };
    assert!(entry(&public, Vec::new(), &closed).unwrap().rule.contains("10.0.0.0/8"));
    let host = entry(&public, Vec::new(), &refusal(9000)).unwrap();
    assert_eq!(host.rule, Why::Host.to_string());
    let excess = Refusal { is_excess: true, ..refusal(9000) };
    assert_eq!(entry(&public, Vec::new(), &excess).unwrap().rule, Why::Limit.to_string());
    assert_eq!(entry(&public, Vec::new(), &refusal(443)), None, "QUIC falls back by itself");
}

#[test]
fn a_stranger_has_no_entry() {
    let book = Book::new(Vec::new());
    let (sender, heard) = mpsc::channel();
    book.observe(Arc::new(Heard(sender)));
    tell(&book, &refusal(9000), 1);
    assert!(heard.try_recv().is_err());
}

use std::net::Ipv4Addr;

use http::Version;

use http::Extensions;

use super::*;
use crate::config::Config;

fn room(all: u32, of_address: u32) -> Arc<Room> {
    let mut http = Config::default().http;
    (http.max_connections, http.max_connections_per_address) = (all, of_address);
    Room::new(&http)
}

fn peer(number: u32) -> Peer {
    Peer::new(Ipv4Addr::from(number).into())
}

fn meet(ticket: &Ticket, owner: &str) {
    let mut extensions = Extensions::new();
    extensions.insert(ticket.acquaintance());
    OwnerNotice::of(&extensions, &owner.parse().unwrap());
}

fn is_here(ticket: &Ticket) -> bool {
    !ticket.cut.is_cancelled()
}

#[tokio::test]
async fn the_silent_go_before_those_who_rest_and_those_before_the_busy() {
    let room = room(100, 3);
    let usages = [Usage::new(), Usage::new(), Usage::new()];
    let _under_way = usages[0].begin(Version::HTTP_11);
    drop(usages[1].begin(Version::HTTP_11));
    let [busy, resting, silent] = usages.map(|usage| room.enter(peer(1), usage));
    let others = room.enter(peer(2), Usage::new());
    let first = room.enter(peer(1), Usage::new());
    assert!(!is_here(&silent) && is_here(&resting) && is_here(&busy) && is_here(&others));
    first.room.book().guests[&first.number].usage.begin(Version::HTTP_11);
    let _second = room.enter(peer(1), Usage::new());
    assert!(!is_here(&resting) && is_here(&busy) && is_here(&others));
}

#[tokio::test]
async fn an_address_takes_no_place_of_another() {
    let room = room(16, 4);
    let quiet = room.enter(peer(1), Usage::new());
    let flood: Vec<Ticket> = (0..100).map(|_| room.enter(peer(2), Usage::new())).collect();
    assert_eq!(flood.iter().filter(|ticket| is_here(ticket)).count(), 4);
    assert!(flood[96..].iter().all(is_here), "the newest are served");
    assert!(is_here(&quiet));
}

#[tokio::test]
async fn strangers_of_many_addresses_leave_room_for_those_who_are_known() {
    let room = room(16, 4);
    let known: Vec<Ticket> = (0..4).map(|_| room.enter(peer(1), Usage::new())).collect();
    known.iter().for_each(|ticket| meet(ticket, "one"));
    let flood: Vec<Ticket> = (0..100).map(|number| room.enter(peer(2 + number), Usage::new())).collect();
    assert_eq!(flood.iter().filter(|ticket| is_here(ticket)).count(), 12);
    assert!(known.iter().all(is_here));
    let late = room.enter(peer(1), Usage::new());
    assert!(is_here(&late), "who has a key gets in and has time to show it");
    drop((flood, known, late));
    assert_eq!(room.book().strangers_in_all, 0);
    assert!(room.book().strangers.is_empty() && room.book().known.is_empty());
}

#[tokio::test]
async fn one_owner_does_not_take_all() {
    let room = room(16, 100);
    let mut greedy = Vec::new();
    for _ in 0..40 {
        let usage = Usage::new();
        let under_way = usage.begin(Version::HTTP_11);
        let ticket = room.enter(peer(1), usage);
        meet(&ticket, "greedy");
        greedy.push((ticket, under_way));
    }
    assert_eq!(room.book().known.values().sum::<usize>(), 8);
    let usage = Usage::new();
    let _under_way = usage.begin(Version::HTTP_11);
    let other = room.enter(peer(2), usage);
    meet(&other, "other");
    let more: Vec<Ticket> = (0..40).map(|_| room.enter(peer(1), Usage::new())).collect();
    assert!(is_here(&other) && is_here(&more[39]));
    assert!(room.book().guests.len() <= 16);
}

#[tokio::test]
async fn the_least_room_there_is_serves_one_after_the_other() {
    let room = room(1, 1);
    let first = room.enter(peer(1), Usage::new());
    meet(&first, "one");
    let second = room.enter(peer(2), Usage::new());
    assert!(!is_here(&first) && is_here(&second));
}

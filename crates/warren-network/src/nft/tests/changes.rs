use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use super::lab::*;
use crate::nft::Table;

fn with_internet() -> Option<(Lab, Table)> {
    let (mut lab, table) = Lab::with_table()?;
    for address in [INTERNET, "192.0.2.2"] {
        let at = |port| SocketAddr::new(address.parse().unwrap(), port);
        lab.serve_tcp(Side::Internet, at(80), "internet");
        lab.serve_udp(Side::Internet, at(9000), "internet");
    }
    Some((lab, table))
}

/// An open connection of a sandbox.
fn connection(sandbox: &Sandbox, to: &str) -> TcpStream {
    let to: SocketAddr = to.parse().unwrap();
    let mut stream = sandbox.inside(|| TcpStream::connect_timeout(&to, PATIENCE).unwrap());
    hear(&mut stream).unwrap();
    stream
}

fn ask(stream: &mut TcpStream) -> Outcome {
    outcome(stream.write_all(b"?").and_then(|()| hear(stream)))
}

#[test]
fn a_change_cuts_what_is_no_longer_allowed_and_nothing_else() {
    let Some((lab, table)) = with_internet() else { return };
    let sandbox = lab.sandbox(1);
    table.put(&sandbox.under(&policy("public"))).unwrap();
    let mut kept = connection(&sandbox, "192.0.2.1:80");
    let mut cut = connection(&sandbox, "192.0.2.2:80");
    let (kept_udp, cut_udp) = sandbox
        .inside(|| (caller("192.0.2.1:9000".parse().unwrap()), caller("192.0.2.2:9000".parse().unwrap())));
    assert_eq!((say(&kept_udp), say(&cut_udp)), (said("internet"), said("internet")));
    table.put(&sandbox.under(&policy("public deny 192.0.2.2"))).unwrap();
    assert_eq!(ask(&mut kept), said("internet"));
    let (end, took) = timed(|| ask(&mut cut));
    assert!(end == Outcome::Refused && took < AT_ONCE, "{end:?} {took:?}");
    assert_eq!((say(&kept_udp), say(&cut_udp)), (said("internet"), Outcome::Refused));
    assert_eq!(sandbox.tcp("192.0.2.2", 80), said("egress"), "and a new one is explained");
}

/// The first byte of the next packet, if one comes in time.
fn receive(socket: &UdpSocket) -> Option<u8> {
    let mut heard = [0; 8];
    loop {
        match socket.recv(&mut heard) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            received => return received.ok().map(|_| heard[0]),
        }
    }
}

#[test]
fn what_the_internet_sends_stops_with_what_is_allowed() {
    let Some((lab, table)) = with_internet() else { return };
    let sandbox = lab.sandbox(1);
    table.put(&sandbox.under(&policy("public"))).unwrap();
    let server = lab.world.on_internet(|| UdpSocket::bind("192.0.2.1:7000").unwrap());
    let client = sandbox.inside(|| caller("192.0.2.1:7000".parse().unwrap()));
    client.send(b"?").unwrap();
    let mut heard = [0; 8];
    let (_, peer) = server.recv_from(&mut heard).unwrap();
    server.send_to(b"1", peer).unwrap();
    assert_eq!(receive(&client), Some(b'1'));
    table.put(&sandbox.under(&policy("allow"))).unwrap();
    client.set_read_timeout(Some(PATIENCE / 8)).unwrap();
    server.send_to(b"2", peer).unwrap();
    assert_eq!(receive(&client), None);
    table.put(&sandbox.under(&policy("allow 192.0.2.1:7000"))).unwrap();
    server.send_to(b"3", peer).unwrap();
    assert_eq!(receive(&client), Some(b'3'), "the flow itself is still there");
}

#[test]
fn a_stricter_class_resets_what_was_direct_and_a_looser_one_keeps_what_is_proxied() {
    let Some((lab, table)) = with_internet() else { return };
    let sandbox = lab.sandbox(1);
    table.put(&sandbox.under(&policy("public"))).unwrap();
    let mut direct = connection(&sandbox, "192.0.2.1:80");
    table.put(&sandbox.under(&policy("learn"))).unwrap();
    let (end, took) = timed(|| ask(&mut direct));
    assert!(end == Outcome::Refused && took < AT_ONCE, "{end:?} {took:?}");
    let mut proxied = connection(&sandbox, "192.0.2.1:80");
    table.put(&sandbox.under(&policy("public"))).unwrap();
    assert_eq!(ask(&mut proxied), said("egress"));
    assert_eq!(sandbox.tcp("192.0.2.1", 80), said("internet"));
}

#[test]
fn rules_are_replaced_under_open_connections() {
    let Some((mut lab, table)) = with_internet() else { return };
    let (first, second) = (lab.sandbox(1), lab.sandbox(2));
    table.put(&first.under(&policy("public"))).unwrap();
    table.put(&second.under(&policy("allow"))).unwrap();
    let mut direct = connection(&first, "192.0.2.1:80");
    // The next process of the same block: other ports, the same elements.
    drop(table);
    let table = lab.world.on_host(|| Table::open(0, crate::nft::Hold::Shared).unwrap());
    assert_eq!(table.owner(), "test");
    assert_eq!(table.links(), [first.place.link(), second.place.link()]);
    let mut skeleton = skeleton();
    skeleton.egress.v4.set_port(8801);
    lab.serve_tcp(Side::Host, "0.0.0.0:8801".parse().unwrap(), "egress 2");
    assert_eq!(second.tcp("192.0.2.1", 80), said("egress"), "the old rules hold until then");
    table.install(&skeleton).unwrap();
    assert!(table.is_intact().unwrap());
    assert_eq!(ask(&mut direct), said("internet"));
    assert_eq!(second.tcp("192.0.2.1", 80), said("egress 2"));
    table.put(&second.under(&policy("public"))).unwrap();
    assert_eq!(second.tcp("192.0.2.1", 80), said("internet"));
}

#[test]
fn without_the_table_nothing_is_forwarded() {
    let Some((lab, table)) = with_internet() else { return };
    let sandbox = lab.sandbox(1);
    table.put(&sandbox.under(&policy("public"))).unwrap();
    let mut stream = connection(&sandbox, "192.0.2.1:80");
    lab.world.on_host(|| crate::world::run("nft", "flush ruleset")).unwrap();
    assert!(!table.is_intact().unwrap());
    assert_eq!(sandbox.udp("192.0.2.1", 9000), Outcome::Refused, "by routing");
    table.restore().unwrap();
    assert!(table.is_intact().unwrap());
    assert_eq!(sandbox.udp("192.0.2.1", 9000), said("internet"));
    assert_eq!(ask(&mut stream), said("internet"), "the connection has survived it");
}

#[test]
fn whoever_needs_a_proxy_is_refused_at_once_when_it_is_dead() {
    let Some((lab, table)) = with_internet() else { return };
    let sandbox = lab.sandbox(1);
    table.put(&sandbox.under(&policy("allow"))).unwrap();
    let mut skeleton = skeleton();
    skeleton.egress.v4.set_port(8801);
    skeleton.dns.v4.set_port(5301);
    table.install(&skeleton).unwrap();
    let (end, took) = timed(|| sandbox.tcp(INTERNET, 80));
    assert!(end == Outcome::Refused && took < AT_ONCE, "{end:?} {took:?}");
    let (end, took) = timed(|| sandbox.udp(INTERNET, 53));
    assert!(end == Outcome::Refused && took < AT_ONCE, "{end:?} {took:?}");
}

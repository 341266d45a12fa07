use std::net::{SocketAddr, UdpSocket};

use super::lab::*;
use crate::world::{self, ip};

/// Where the Internet has servers: TCP on 80, UDP on 9000 and 443.
fn with_internet() -> Option<(Lab, crate::nft::Table)> {
    let (mut lab, table) = Lab::with_table()?;
    for address in [INTERNET, INTERNET_V6] {
        let at = |port| SocketAddr::new(address.parse().unwrap(), port);
        lab.serve_tcp(Side::Internet, at(80), "internet");
        lab.serve_tcp(Side::Internet, at(53), "internet");
        lab.serve_udp(Side::Internet, at(53), "internet");
        lab.serve_udp(Side::Internet, at(9000), "internet");
        lab.serve_udp(Side::Internet, at(443), "internet");
    }
    Some((lab, table))
}

/// The packets that the Internet has seen so far.
fn seen(lab: &Lab) -> u64 {
    lab.world.on_internet(|| {
        let counter = "list chain inet seen each";
        let listing = world::run("nft", counter).or_else(|_| {
            for command in [
                "add table inet seen",
                "add chain inet seen each { type filter hook prerouting priority 0; }",
                // Without what neighbours say of themselves.
                "add rule inet seen each meta l4proto != ipv6-icmp counter",
            ] {
                world::run("nft", command)?;
            }
            world::run("nft", counter)
        });
        let listing = listing.unwrap();
        let (_, count) = listing.split_once("counter packets ").unwrap();
        count.split_whitespace().next().unwrap().parse().unwrap()
    })
}

#[test]
fn nothing_is_sent_before_a_link_is_put_nor_after_it_is_removed() {
    let Some((lab, table)) = with_internet() else { return };
    let sandbox = lab.sandbox(1);
    let silent = || {
        assert_eq!(sandbox.udp(INTERNET, 9000), Outcome::Silence);
        assert_eq!(sandbox.udp(INTERNET_V6, 9000), Outcome::Silence);
        assert_eq!(sandbox.udp("10.213.0.2", 53), Outcome::Silence, "not even a question");
    };
    let sent = || seen(&lab);
    let before = sent();
    silent();
    assert_eq!(sent(), before);
    table.put(&sandbox.under(&policy("public"))).unwrap();
    assert_eq!(sandbox.udp(INTERNET, 9000), said("internet"));
    table.remove(&sandbox.place.link()).unwrap();
    let before = sent();
    silent();
    assert_eq!(sent(), before);
}

#[test]
fn what_is_public_is_forwarded_and_comes_from_the_host() {
    let Some((lab, table)) = with_internet() else { return };
    let sandbox = lab.sandbox(1);
    table.put(&sandbox.under(&policy("public"))).unwrap();
    for address in [INTERNET, INTERNET_V6] {
        assert_eq!(sandbox.tcp(address, 80), said("internet"), "{address}");
        assert_eq!(sandbox.udp(address, 9000), said("internet"), "{address}");
        assert_eq!(sandbox.udp(address, 443), said("internet"), "QUIC needs no proxy here");
        assert_eq!(sandbox.ping(address), said("echo"), "{address}");
        assert_eq!(sandbox.tcp(address, 81), Outcome::Refused, "nobody listens there");
    }
    // Neither address can be answered but by the way it came: it is the host that is seen.
    let flows = lab.world.on_host(|| world::run("conntrack", "-L -p tcp --src 10.213.0.1")).unwrap();
    assert!(flows.contains(&format!("dst={}", world::HOST)), "{flows}");
}

#[test]
fn questions_go_to_our_proxy_wherever_they_were_meant_for() {
    let Some((lab, table)) = with_internet() else { return };
    let sandbox = lab.sandbox(1);
    for mode in ["public", "learn", "allow"] {
        table.put(&sandbox.under(&policy(mode))).unwrap();
        for address in [INTERNET, "10.9.8.7", "169.254.77.1", "198.51.100.2"] {
            assert_eq!(sandbox.udp(address, 53), said("dns"), "{mode} {address}");
            assert_eq!(sandbox.tcp(address, 53), said("dns"), "{mode} {address}");
        }
        assert_eq!(sandbox.tcp(INTERNET_V6, 53), said("dns"), "{mode}");
    }
}

#[test]
fn closed_ranges_the_host_and_other_sandboxes_are_refused_at_once() {
    let Some((mut lab, table)) = with_internet() else { return };
    let (sandbox, other) = (lab.sandbox(1), lab.sandbox(2));
    lab.serve_udp(Side::Host, "0.0.0.0:1234".parse().unwrap(), "host");
    lab.serve_tcp(Side::Host, "0.0.0.0:22".parse().unwrap(), "host");
    let server = other.inside(|| UdpSocket::bind("0.0.0.0:1234").unwrap());
    table.put(&other.under(&policy("public"))).unwrap();
    let closed = [
        "10.0.0.5",
        "100.64.0.1",
        "169.254.169.254",
        "169.254.77.1",
        "172.16.0.1",
        "192.0.0.8",
        "192.168.1.1",
        "198.18.0.1",
        "240.0.0.1",
        "198.51.100.2",
        "10.213.0.2",
        "::ffff:0:1",
        "64:ff9b::a00:1",
        "2001::1",
        "2002:a00:1::1",
        "fc00::1",
        "fec0::1",
        "100::1",
        "2001:db8:1::2",
        "fd77:6172:7200::2",
    ];
    for mode in ["public", "learn", "allow 0.0.0.0/0 ::/0"] {
        table.put(&sandbox.under(&policy(mode))).unwrap();
        for address in closed {
            let (outcome, took) = timed(|| sandbox.tcp(address, 22));
            assert!(
                outcome == said("egress") && took < AT_ONCE,
                "{mode} tcp {address}: {outcome:?} {took:?}"
            );
            let (outcome, took) = timed(|| sandbox.udp(address, 1234));
            assert!(
                outcome == Outcome::Refused && took < AT_ONCE,
                "{mode} udp {address}: {outcome:?} {took:?}"
            );
            let (outcome, took) = timed(|| sandbox.ping(address));
            assert!(
                outcome == Outcome::Refused && took < AT_ONCE,
                "{mode} ping {address}: {outcome:?} {took:?}"
            );
        }
    }
    server.set_nonblocking(true).unwrap();
    assert!(server.recv(&mut [0; 8]).is_err(), "nothing has reached the other sandbox");
}

/// An ordinary socket cannot send these, so the packets are made by hand.
#[test]
fn what_no_socket_sends_to_is_refused_as_well() {
    let Some((lab, table)) = with_internet() else { return };
    let sandbox = lab.sandbox(1);
    table.put(&sandbox.under(&policy("public"))).unwrap();
    let left = || seen(&lab);
    let before = left();
    // Routing that a sandbox could not change; the test is root in there.
    let sent = sandbox.inside(|| {
        for range in ["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4"] {
            ip(&format!("route add {range} via 169.254.77.1 table 9")).unwrap();
        }
        ip("rule add pref 1 table 9").unwrap();
        ip("rule add pref 2 table local").unwrap();
        ip("rule del pref 0").unwrap();
        let socket = UdpSocket::bind("10.213.0.1:0").unwrap();
        ["0.1.2.3:9", "127.0.0.1:9", "224.0.0.251:9"].map(|to| socket.send_to(b"x", to).is_ok())
    });
    assert_eq!(sent, [true; 3]);
    assert_eq!(left(), before);
    assert_eq!(sandbox.udp(INTERNET, 9000), said("internet"), "what is open still is");
}

#[test]
fn a_sandbox_sends_from_its_own_addresses_only() {
    let Some((lab, table)) = with_internet() else { return };
    let (sandbox, other) = (lab.sandbox(1), lab.sandbox(2));
    for one in [&sandbox, &other] {
        table.put(&one.under(&policy("public"))).unwrap();
    }
    assert_eq!(sandbox.udp(INTERNET, 9000), said("internet"));
    // Its neighbour's address, over its own link.
    sandbox.inside(|| {
        ip("address add 10.213.0.2/32 dev eth0").unwrap();
        ip("address add fd77:6172:7200::2/128 dev eth0 nodad").unwrap();
    });
    let as_other = |source: &'static str, to: &'static str| {
        sandbox.inside(move || {
            let socket = UdpSocket::bind((source, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE / 4)).unwrap();
            socket.connect((to, 9000)).unwrap();
            say(&socket)
        })
    };
    assert_eq!(as_other("10.213.0.2", INTERNET), Outcome::Silence);
    assert_eq!(as_other("fd77:6172:7200::2", INTERNET_V6), Outcome::Silence);
    assert_eq!(sandbox.udp(INTERNET, 9000), said("internet"), "its own still works");
    assert_eq!(other.udp(INTERNET, 9000), said("internet"), "the neighbour is not affected");
    // Its own address, with another hardware address.
    sandbox.inside(|| ip("link set eth0 address 02:00:00:00:00:09").unwrap());
    assert_eq!(sandbox.udp(INTERNET, 9000), Outcome::Silence);
}

#[test]
fn nobody_opens_a_connection_to_a_sandbox() {
    let Some((lab, table)) = with_internet() else { return };
    let (sandbox, other) = (lab.sandbox(1), lab.sandbox(2));
    for one in [&sandbox, &other] {
        table.put(&one.under(&policy("public"))).unwrap();
    }
    let _server = sandbox.inside(|| std::net::TcpListener::bind("0.0.0.0:8080").unwrap());
    let to: SocketAddr = "10.213.0.1:8080".parse().unwrap();
    let connect = || {
        let connected = std::net::TcpStream::connect_timeout(&to, PATIENCE);
        outcome(connected.map(|_| "connected".to_owned()))
    };
    assert_eq!(lab.world.on_host(connect), Outcome::Refused);
    assert_eq!(lab.world.on_internet(connect), Outcome::Refused, "not even with a route to it");
    assert_eq!(other.tcp("10.213.0.1", 8080), said("egress"));
}

#[test]
fn a_watched_sandbox_reaches_the_proxy_by_tcp_and_the_rest_as_it_may() {
    let Some((lab, table)) = with_internet() else { return };
    let sandbox = lab.sandbox(1);
    table.put(&sandbox.under(&policy("learn deny 192.0.2.2:9000"))).unwrap();
    for address in [INTERNET, INTERNET_V6] {
        assert_eq!(sandbox.tcp(address, 80), said("egress"));
        assert_eq!(sandbox.udp(address, 9000), said("internet"));
        assert_eq!(sandbox.udp(address, 443), Outcome::Refused, "QUIC would pass the proxy by");
        assert_eq!(sandbox.ping(address), said("echo"));
    }
    assert_eq!(sandbox.udp("192.0.2.2", 9000), Outcome::Refused);
    assert_eq!(sandbox.ping("192.0.2.2"), Outcome::Refused);
    let closed = "allow 192.0.2.0/31:9000-9001 192.0.2.2 [2001:db8:5::/48]:9000";
    table.put(&sandbox.under(&policy(closed))).unwrap();
    for address in [INTERNET, INTERNET_V6] {
        assert_eq!(sandbox.tcp(address, 80), said("egress"));
        assert_eq!(sandbox.udp(address, 9000), said("internet"));
        let (outcome, took) = timed(|| sandbox.udp(address, 443));
        assert!(outcome == Outcome::Refused && took < AT_ONCE);
        assert_eq!(sandbox.ping(address), Outcome::Refused, "a rule with ports opens no echo");
    }
    assert_eq!(sandbox.ping("192.0.2.2"), said("echo"));
    assert_eq!(sandbox.ping("203.0.113.9"), Outcome::Refused);
    assert_eq!(sandbox.udp("203.0.113.9", 9000), Outcome::Refused);
}

#[test]
fn a_limit_on_connections_is_kept() {
    let Some((lab, table)) = with_internet() else { return };
    let sandbox = lab.sandbox(1);
    let mut limited = policy("public");
    limited.limits.connections = 5;
    limited.limits.new_connections_per_s = 1000;
    table.put(&sandbox.under(&limited)).unwrap();
    let to: SocketAddr = format!("{INTERNET}:80").parse().unwrap();
    let (open, refused) = sandbox.inside(|| {
        let streams: Vec<_> = (0..9).map(|_| std::net::TcpStream::connect_timeout(&to, PATIENCE)).collect();
        let open = streams.iter().filter(|stream| stream.is_ok()).count();
        (open, streams.len() - open)
    });
    assert_eq!((open, refused), (5, 4));
    limited.limits.connections = 500;
    limited.limits.new_connections_per_s = 3;
    table.put(&sandbox.under(&limited)).unwrap();
    let open = sandbox.inside(|| {
        let soon = std::time::Duration::from_millis(20);
        let streams: Vec<_> = (0..12).map(|_| std::net::TcpStream::connect_timeout(&to, soon)).collect();
        streams.iter().filter(|stream| stream.is_ok()).count()
    });
    assert!((3..8).contains(&open), "{open}");
}

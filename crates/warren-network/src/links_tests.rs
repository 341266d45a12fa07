use std::os::fd::AsFd;
use std::time::Instant;

use warren_core::network::Cidr;

use super::*;
use crate::namespace;
use crate::netlink::{Protocol, Socket};
use crate::place::{GATEWAY_V6, Place};
use crate::world::{World, reaches, reaches_over, run};

const PLACE: Place = Place { block: 3, number: 0x0a01 };
const GROUP: u32 = 0x7772_0003;

fn subnet() -> Cidr {
    "10.213.0.0/16".parse().unwrap()
}

/// From inside, as any program could: groups and broadcasts, and addresses that are said to be on
/// the link.
#[test]
fn a_sandbox_makes_no_neighbours() {
    let Some(world) = World::with_v6() else { return };
    world.on_host(|| {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let started = Instant::now();
        let (inside, mut guest) = found(true).unwrap();
        println!("a namespace with its rules takes {:?}", started.elapsed());
        create(&mut socket, PLACE, subnet(), inside.as_fd(), true).unwrap();
        settle(&mut guest, PLACE, subnet(), true).unwrap();
        find(&mut socket, PLACE).unwrap().unwrap();
        namespace::visit(inside.as_fd(), || {
            let neighbours =
                || run("ip", "-4 neigh show nud all").unwrap() + &run("ip", "-6 neigh show nud all").unwrap();
            let held = |text: &str| {
                text.lines().filter(|line| !line.contains("PERMANENT") && !line.contains("dev lo")).count()
            };
            assert_eq!(held(&neighbours()), 0, "{}", neighbours());
            let v4 = std::net::UdpSocket::bind("10.213.58.1:0").unwrap();
            v4.set_broadcast(true).unwrap();
            let v6 = std::net::UdpSocket::bind("[::]:0").unwrap();
            for number in 1..100 {
                let refused = v4.send_to(b"x", format!("224.1.2.{number}:9")).unwrap_err();
                assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "{refused}");
                let to = format!("[ff02::1:{number}%2]:9").parse::<std::net::SocketAddrV6>();
                drop(to.map(|to| v6.send_to(b"x", to)));
            }
            drop(v4.send_to(b"x", "255.255.255.255:9"));
            assert_eq!(held(&neighbours()), 0, "{}", neighbours());
            assert!(reaches("169.254.77.1") && reaches("127.0.0.1") && reaches("::1"));
            assert!(reaches_over(GATEWAY_V6.into(), 2));
            // A group of the sandbox's own still works, without leaving it.
            let hears = std::net::UdpSocket::bind("0.0.0.0:9999").unwrap();
            hears.join_multicast_v4(&"224.1.2.3".parse().unwrap(), &std::net::Ipv4Addr::UNSPECIFIED).unwrap();
            hears.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
            let speaks = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
            speaks.send_to(b"hello", "224.1.2.3:9999").unwrap();
            assert_eq!(hears.recv(&mut [0; 9]).unwrap(), 5);
            Ok(())
        })
        .unwrap();
        remove(&mut socket, &[PLACE], GROUP).unwrap();
    });
}

#[test]
fn a_pair_reaches_across_and_leaves_nothing() {
    let Some(world) = World::new() else { return };
    world.on_host(|| {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let started = Instant::now();
        let (inside, mut guest) = found(true).unwrap();
        let namespaced = started.elapsed();
        create(&mut socket, PLACE, subnet(), inside.as_fd(), true).unwrap();
        settle(&mut guest, PLACE, subnet(), true).unwrap();
        find(&mut socket, PLACE).unwrap().unwrap();
        println!("a pair takes {:?}, of which its namespace {namespaced:?}", started.elapsed());

        namespace::visit(inside.as_fd(), || {
            assert!(reaches("169.254.77.1"));
            let routes = run("ip", "route").unwrap();
            assert!(routes.contains("default via 169.254.77.1 dev eth0"), "{routes}");
            let addresses = run("ip", "-6 address show dev eth0").unwrap();
            assert!(addresses.contains("fd77:6172:7203::a01/128"), "{addresses}");
            assert!(!addresses.contains("fe80"), "nothing was made up: {addresses}");
            assert!(reaches_over(GATEWAY_V6.into(), 2));
            assert_eq!(namespace::sysctl("ipv4/ip_unprivileged_port_start").as_deref(), Some("0"));
            Ok(())
        })
        .unwrap();
        assert!(reaches("10.213.58.1") && reaches("fd77:6172:7203::a01"));
        let conf = |name: &str| namespace::sysctl(&format!("ipv4/conf/wrn3-0a01/{name}"));
        assert_eq!((conf("rp_filter").as_deref(), conf("forwarding").as_deref()), (Some("1"), Some("1")));
        assert_eq!(conf("accept_redirects").as_deref(), Some("0"));

        describe(&mut socket, PLACE, "warren:test:serve:someone").unwrap();
        let links = list(&mut socket).unwrap();
        assert_eq!(links.len(), 1);
        assert_eq!((links[0].place, links[0].alias.as_str()), (PLACE, "warren:test:serve:someone"));
        assert_eq!(find(&mut socket, PLACE).unwrap().as_ref(), links.first());
        let counted = traffic(&mut socket, PLACE).unwrap().unwrap();
        assert!(counted.received_packets >= 2 && counted.sent_bytes >= 100, "{counted:?}");

        let absent = Place { number: 7, ..PLACE };
        let started = Instant::now();
        remove(&mut socket, &[absent, PLACE], GROUP).unwrap();
        println!("removing it takes {:?}", started.elapsed());
        assert_eq!(list(&mut socket).unwrap(), []);
        assert_eq!(traffic(&mut socket, PLACE).unwrap(), None);
        remove(&mut socket, &[PLACE], GROUP).unwrap();
        assert!(!run("ip", "route").unwrap().contains("10.213"));
    });
}

#[test]
fn without_ipv6_there_is_none_on_the_link() {
    let Some(world) = World::new() else { return };
    world.on_host(|| {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let (inside, mut guest) = found(false).unwrap();
        create(&mut socket, PLACE, subnet(), inside.as_fd(), false).unwrap();
        settle(&mut guest, PLACE, subnet(), false).unwrap();
        namespace::visit(inside.as_fd(), || {
            assert_eq!(run("ip", "-6 address show dev eth0").unwrap(), "");
            assert!(reaches("::1"), "loopback has it all the same");
            Ok(())
        })
        .unwrap();
        assert_eq!(run("ip", "-6 address show dev wrn3-0a01").unwrap(), "");
        remove(&mut socket, &[PLACE], GROUP).unwrap();
    });
}

#[test]
fn queues_come_and_go_on_both_ends() {
    let Some(world) = World::new() else { return };
    world.on_host(|| {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let (inside, mut guest) = found(false).unwrap();
        create(&mut socket, PLACE, subnet(), inside.as_fd(), false).unwrap();
        settle(&mut guest, PLACE, subnet(), false).unwrap();
        let shown = || run("tc", "qdisc show dev wrn3-0a01").unwrap();
        shape(&mut socket, &PLACE.link(), None).unwrap();
        shape(&mut socket, &PLACE.link(), Some(1 << 20)).unwrap();
        assert!(shown().contains("tbf") && shown().contains("rate 8388Kbit"), "{}", shown());
        shape(&mut socket, &PLACE.link(), Some(10 << 30)).unwrap();
        assert!(shown().contains("rate 85899Mbit"), "{}", shown());
        shape(&mut socket, &PLACE.link(), None).unwrap();
        assert!(!shown().contains("tbf"), "{}", shown());
        shape(&mut guest, INSIDE, Some(1 << 20)).unwrap();
        assert!(reaches("10.213.58.1"));
        remove(&mut socket, &[PLACE], GROUP).unwrap();
    });
}

#[test]
fn a_namespace_is_found_by_who_is_in_it() {
    let Some(world) = World::new() else { return };
    world.on_host(|| {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let (inside, _guest) = found(false).unwrap();
        create(&mut socket, PLACE, subnet(), inside.as_fd(), false).unwrap();
        let number = find(&mut socket, PLACE).unwrap().unwrap().namespace.unwrap();
        assert!(find_namespace(&mut socket, number).is_none(), "nobody is in it");
        let spawn = || std::process::Command::new("sleep").arg("60").spawn();
        let mut resident = namespace::visit(inside.as_fd(), spawn).unwrap();
        let again = find_namespace(&mut socket, number).unwrap();
        resident.kill().unwrap();
        resident.wait().unwrap();
        let identity = |namespace| rustix::fs::fstat(namespace).unwrap().st_ino;
        assert_eq!(identity(&again), identity(&inside));
        remove(&mut socket, &[PLACE], GROUP).unwrap();
    });
}

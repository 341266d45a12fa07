use std::net::SocketAddr;

use super::lab::*;
use crate::nft::{Hold, Skeleton, Table, tables};
use crate::rules::Reach;
use crate::world::{self, ip, run};

fn with_exceptions(rules: &[&str]) -> Skeleton {
    let rules: Vec<_> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    Skeleton { exceptions: Reach::of(&rules), ..skeleton() }
}

#[test]
fn the_operator_opens_what_is_closed_to_the_rest() {
    let Some((mut lab, table)) = Lab::with_table() else { return };
    lab.world.on_internet(|| ip("address add 10.20.30.40/32 dev lo").unwrap());
    lab.world.on_host(|| ip("route add 10.20.30.40 via 198.51.100.1").unwrap());
    let at = |port| SocketAddr::new("10.20.30.40".parse().unwrap(), port);
    lab.serve_udp(Side::Internet, at(5432), "database");
    lab.serve_udp(Side::Internet, at(5433), "database");
    lab.serve_tcp(Side::Internet, at(5432), "database");
    let at_host = |port| SocketAddr::new(world::HOST.parse().unwrap(), port);
    lab.serve_udp(Side::Host, at_host(7000), "host");
    lab.serve_tcp(Side::Host, at_host(7000), "host");
    lab.serve_udp(Side::Host, at_host(7001), "host");
    let (sandbox, other) = (lab.sandbox(1), lab.sandbox(2));
    let server = other.inside(|| std::net::UdpSocket::bind("0.0.0.0:5432").unwrap());
    table.put(&sandbox.under(&policy("public"))).unwrap();
    table.put(&other.under(&policy("public"))).unwrap();
    assert_eq!(sandbox.udp("10.20.30.40", 5432), Outcome::Refused);
    table.install(&with_exceptions(&["10.0.0.0/8:5432", "198.51.100.2:7000"])).unwrap();
    assert_eq!(sandbox.udp("10.20.30.40", 5432), said("database"));
    assert_eq!(sandbox.tcp("10.20.30.40", 5432), said("database"));
    assert_eq!(sandbox.udp("10.20.30.40", 5433), Outcome::Refused);
    assert_eq!(sandbox.udp(world::HOST, 7000), said("host"));
    assert_eq!(sandbox.tcp(world::HOST, 7000), said("host"));
    assert_eq!(sandbox.udp(world::HOST, 7001), Outcome::Refused);
    // Other sandboxes are no exception, though they lie in the range.
    assert_eq!(sandbox.udp("10.213.0.2", 5432), Outcome::Refused);
    server.set_nonblocking(true).unwrap();
    assert!(server.recv(&mut [0; 8]).is_err());
    // And it is still the sandbox's policy that decides.
    table.put(&sandbox.under(&policy("allow"))).unwrap();
    assert_eq!(sandbox.udp("10.20.30.40", 5432), Outcome::Refused);
    table.put(&sandbox.under(&policy("public"))).unwrap();
    table.install(&skeleton()).unwrap();
    assert_eq!(sandbox.udp("10.20.30.40", 5432), Outcome::Refused);
}

#[test]
fn the_proxies_are_not_reached_over_other_links() {
    let Some((lab, _table)) = Lab::with_table() else { return };
    let _sandbox = lab.sandbox(1);
    let gateway: SocketAddr = format!("169.254.77.1:{EGRESS_PORT}").parse().unwrap();
    let connect = || {
        let mut stream = std::net::TcpStream::connect_timeout(&gateway, PATIENCE / 4)?;
        hear(&mut stream)
    };
    assert_eq!(outcome(lab.world.on_host(connect)), said("egress"), "by the host itself");
    lab.world.on_internet(|| ip("route add 169.254.77.1 via 198.51.100.2").unwrap());
    assert_eq!(outcome(lab.world.on_internet(connect)), Outcome::Silence);
}

#[test]
fn somebody_elses_nat_does_not_lead_inside() {
    let Some((mut lab, table)) = Lab::with_table() else { return };
    lab.world.on_internet(|| ip("address add 10.20.30.40/32 dev lo").unwrap());
    lab.world.on_host(|| ip("route add 10.20.30.40 via 198.51.100.1").unwrap());
    lab.serve_udp(Side::Internet, "10.20.30.40:9000".parse().unwrap(), "inside");
    lab.world.on_host(|| {
        for command in [
            "add table ip other",
            "add chain ip other pre { type nat hook prerouting priority dstnat; }",
            "add rule ip other pre ip daddr 192.0.2.1 udp dport 9000 dnat to 10.20.30.40",
        ] {
            run("nft", command).unwrap();
        }
    });
    let sandbox = lab.sandbox(1);
    table.put(&sandbox.under(&policy("public"))).unwrap();
    assert_eq!(sandbox.udp(INTERNET, 9000), Outcome::Refused);
    table.install(&with_exceptions(&["10.20.30.40:9000"])).unwrap();
    assert_eq!(sandbox.udp(INTERNET, 9000), said("inside"), "unless it is excepted");
}

#[test]
fn a_table_of_another_layout_is_made_anew_and_closed_until_then() {
    let Some(lab) = Lab::new() else { return };
    lab.world.on_host(|| {
        for command in [
            "add table inet warren-0 { comment \"warren 0 x\"; }",
            "add chain inet warren-0 arrive { type filter hook forward priority 0; }",
        ] {
            run("nft", command).unwrap();
        }
        assert_eq!(tables().unwrap().len(), 1);
        let table = Table::open(0, Hold::Ours).unwrap();
        assert_eq!(table.links(), Vec::<String>::new());
        table.install(&skeleton()).unwrap();
        assert!(table.is_intact().unwrap());
        let listing = run("nft", "list table inet warren-0").unwrap();
        assert!(listing.contains("warren 1 ") && listing.contains("set pinned4"), "{listing}");
        table.delete().unwrap();
        assert_eq!(tables().unwrap(), []);
    });
}

//! The network's part of `doctor`. Everything is tried in namespaces that end with the trial:
//! nothing of the host changes.

mod managers;
mod tables;

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;

use parking_lot::Mutex;
use rustix::thread::CapabilitySet;
use warren_core::network::NetworkPolicy;
use warren_core::{Check, CheckStatus};

use crate::claims::Domain;
use crate::links;
use crate::namespace;
use crate::netlink::{Attributes, Message, Protocol, Request, Socket, attribute, text};
use crate::nft::{Hold, LinkRules, Listener, Skeleton, Table};
use crate::numbers::Numbers;
use crate::place::{GATEWAY, Place};
use crate::rules::{Reach, Rules};
use crate::stock::Maker;

/// `NFT_MSG_GETCHAIN`, in the subsystem of nftables.
const GETCHAIN: u16 = 10 << 8 | 4;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const HOOK_NUMBER: u16 = 1;
const INPUT: u32 = 1;
const FORWARD: u32 = 2;
const DROP: u32 = 0;

/// Without any of these sandboxes have no network; all else works.
pub(crate) fn examine() -> Vec<Check> {
    let rights = rights();
    if rights.status != CheckStatus::Ok {
        return vec![rights];
    }
    let tables = [tables::neighbours(), tables::connections()];
    let checks =
        [rights, links_of_two_ends(), nftables(), forwarding(), others(), managers::managers(), ipv6()];
    checks.into_iter().chain(tables).collect()
}

fn ok(name: &'static str, found: impl Into<String>) -> Check {
    Check { name, status: CheckStatus::Ok, found: found.into(), advice: String::new() }
}

fn warning(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    Check { name, status: CheckStatus::Warning, found: found.into(), advice: advice.into() }
}

/// The capabilities for making namespaces, links and rules.
const NEEDED: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::NET_ADMIN);

pub(crate) fn has_rights() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|held| held.effective.contains(NEEDED))
}

fn rights() -> Check {
    let advice = "run as root, outside of other containers: without, sandboxes have no network";
    match rustix::thread::capabilities(None) {
        Ok(held) if held.effective.contains(NEEDED) => ok("network rights", "as needed"),
        Ok(held) => warning("network rights", format!("missing {:?}", NEEDED - held.effective), advice),
        Err(errno) => warning("network rights", errno.to_string(), advice),
    }
}

fn links_of_two_ends() -> Check {
    let name = "network links";
    match namespace::make(|_| try_link()) {
        Ok(_) => ok(name, "veth pairs can be made"),
        Err(error) => warning(name, error.to_string(), "load the kernel module `veth`"),
    }
}

fn try_link() -> io::Result<()> {
    let domain = Domain { instance: "0".to_owned(), name: "serve".to_owned() };
    let numbers = Mutex::new(Numbers::new(1, &HashSet::new()));
    let subnet = "10.213.0.0/16".parse().map_err(io::Error::other)?;
    let maker = Maker { block: 0, subnet, v6: false, domain, numbers };
    let mut socket = Socket::open(Protocol::Route)?;
    let pair = maker.make(&mut socket).map_err(io::Error::other)?;
    links::shape(&mut socket, &pair.place.link(), Some(1 << 20))?;
    let mut inside = Socket::open_in(Protocol::Route, pair.namespace.as_fd())?;
    Ok(links::shape(&mut inside, links::INSIDE, Some(1 << 20))?)
}

fn nftables() -> Check {
    let name = "nftables";
    match namespace::make(|_| try_table()) {
        Ok((_, true)) => ok(name, "known to the kernel; a table can belong to one process"),
        Ok((_, false)) => ok(name, "known to the kernel; a table that others flush is restored"),
        Err(error) => {
            let advice = "use a kernel with nftables, connection tracking, NAT, and sets with intervals";
            warning(name, error.to_string(), advice)
        }
    }
}

/// A whole table with a link: every expression that rules use has to be known.
fn try_table() -> io::Result<bool> {
    let table = Table::claim(0, "examination", Hold::Ours).map_err(io::Error::other)?;
    let listener = Listener { v4: SocketAddrV4::new(GATEWAY, 1), v6: None };
    let subnets = vec!["10.213.0.0/16".parse().map_err(io::Error::other)?];
    let skeleton = Skeleton { subnets, dns: listener, egress: listener, exceptions: Reach::default() };
    table.install(&skeleton)?;
    let place = Place { block: 0, number: 1 };
    table.put(&LinkRules {
        link: place.link(),
        mac: place.mac(),
        addresses: vec![Ipv4Addr::new(10, 213, 0, 1).into()],
        rules: Rules::of(&[NetworkPolicy::public()], 0),
    })?;
    Ok(table.is_held())
}

fn forwarding() -> Check {
    let name = "forwarding";
    match namespace::sysctl("ipv4/ip_forward").as_deref() {
        Some("1") => ok(name, "on"),
        Some(_) => ok(name, "off: it is switched on when the first network is opened (net.ipv4.ip_forward)"),
        None => warning(name, "unknown", "mount /proc"),
    }
}

/// Looks for other tables that drop forwarded packets, or packets to the host. They would drop
/// sandboxes' packets and questions too, whatever our own rules say.
fn others() -> Check {
    let name = "other firewalls";
    let dropping = match drops() {
        Ok(dropping) => dropping,
        Err(error) => return warning(name, error.to_string(), "use a kernel with nftables"),
    };
    if dropping.is_empty() {
        return ok(name, "none that drops what sandboxes send");
    }
    let advice = "let `iifname wrn*` and `oifname wrn*` pass there; with Docker: iptables -I DOCKER-USER -i wrn+ -j ACCEPT \
                  and iptables -I DOCKER-USER -o wrn+ -j ACCEPT; with ufw: ufw allow in on wrn+ and ufw route allow in on wrn+";
    warning(name, format!("{} drops what no rule of it accepts", dropping.join(", ")), advice)
}

/// Chains of others whose policy is to drop what they do not know.
fn drops() -> io::Result<Vec<String>> {
    let mut socket = Socket::open(Protocol::Netfilter)?;
    Ok(socket.list(|| Request::new(GETCHAIN, 0, &[0; 4]), drops_of)?)
}

fn drops_of(message: Message<'_>) -> Option<String> {
    let attributes = message.attributes(4);
    let number = |value: &[u8]| Some(u32::from_be_bytes(value.try_into().ok()?));
    let hook = Attributes::of(attribute(&attributes, CHAIN_HOOK)?);
    let is_ours_too = matches!(attribute(&hook, HOOK_NUMBER).and_then(number), Some(INPUT | FORWARD));
    let drops = attribute(&attributes, CHAIN_POLICY).and_then(number) == Some(DROP);
    let table = attribute(&attributes, CHAIN_TABLE).and_then(text)?;
    let chain = attribute(&attributes, CHAIN_NAME).and_then(text)?;
    (is_ours_too && drops && !table.starts_with("warren-")).then(|| format!("`{table} {chain}`"))
}

fn ipv6() -> Check {
    if has_v6() {
        return ok("IPv6", "sandboxes have it");
    }
    ok("IPv6", "sandboxes have none: the host does not forward it, or has no way to it")
}

/// Sandboxes have IPv6 where the host is a router of it, and has somewhere to send it.
pub(crate) fn has_v6() -> bool {
    let forwards = namespace::sysctl("ipv6/conf/all/forwarding").as_deref() == Some("1");
    forwards && links::has_default_v6().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{World, run};

    #[test]
    fn a_firewall_that_drops_what_sandboxes_send_is_named() {
        let Some(world) = World::new() else { return };
        world.on_host(|| {
            let checks = examine();
            assert!(checks.iter().all(|check| check.status == CheckStatus::Ok), "{checks:?}");
            run("nft", "add table ip filter").unwrap();
            run("nft", "add chain ip filter FORWARD { type filter hook forward priority 0 ; policy drop ; }")
                .unwrap();
            let check = others();
            assert_eq!(check.status, CheckStatus::Warning);
            assert!(check.found.contains("`filter FORWARD`"), "{check:?}");
            assert_eq!(
                links::list(&mut Socket::open(Protocol::Route).unwrap()).unwrap(),
                [],
                "nothing is left"
            );
        });
    }
}

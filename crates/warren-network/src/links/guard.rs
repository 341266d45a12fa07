//! Keeps packets of sandboxes from being routed before they are judged: the host's routing rules
//! prohibit packets from sandboxes' addresses that have no mark of ours. Only our table gives
//! marks, so without it nothing is forwarded.

use std::net::IpAddr;

use parking_lot::Mutex;
use rustix::io::Errno;
use warren_core::network::Cidr;

use super::family;
use crate::netlink::{Message, NetlinkError, Protocol, Request, Socket, attribute};
use crate::nft::MARK_MASK;
use crate::place;

/// Before all rules that people make, one number for each block.
const PRIORITY: u32 = 16;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_FWMASK: u16 = 16;
/// In a rule's header, after the family and the lengths of its networks: what becomes of the
/// packet.
const ACTION_AT: usize = 7;
const PROHIBIT: u8 = 8;
const HEADER: usize = 12;

/// The rules of one block.
#[derive(Debug)]
pub(crate) struct Guard {
    block: u8,
    networks: Vec<Cidr>,
    socket: Mutex<Socket>,
}

impl Guard {
    /// For the calling thread's namespace. Holds nothing yet.
    pub(crate) fn new(block: u8, subnet: Cidr) -> Result<Self, NetlinkError> {
        let networks =
            [place::block_v4(subnet, block), place::block_v6(block)].into_iter().flatten().collect();
        Ok(Self { block, networks, socket: Mutex::new(Socket::open(Protocol::Route)?) })
    }

    /// Puts down what is missing.
    pub(crate) fn hold(&self) -> Result<(), NetlinkError> {
        let mut socket = self.socket.lock();
        for network in &self.networks {
            let how = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
            match socket.act(rule(libc::RTM_NEWRULE, how, *network, self.block)) {
                Ok(()) => {}
                Err(error) if error.errno == Errno::EXIST => {}
                // The kernel has no IPv6.
                Err(error) if error.errno == Errno::AFNOSUPPORT && network.address().is_ipv6() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn lift(&self) -> Result<(), NetlinkError> {
        lift(&mut self.socket.lock(), self.block)
    }
}

/// Removes the rules of a block, whichever subnet they are for.
pub(crate) fn lift(socket: &mut Socket, block: u8) -> Result<(), NetlinkError> {
    let rules = || Request::new(libc::RTM_GETRULE, 0, &[0; HEADER]);
    let doomed = socket.list(rules, |message| network_of(message, block))?;
    for network in doomed {
        match socket.act(rule(libc::RTM_DELRULE, 0, network, block)) {
            Err(error) if !error.is_absent() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The network whose packets a rule prohibits, if it is one of the block's.
fn network_of(message: Message<'_>, block: u8) -> Option<Cidr> {
    let attributes = message.attributes(HEADER);
    let number = |kind| Some(u32::from_ne_bytes(attribute(&attributes, kind)?.try_into().ok()?));
    let is_ours = message.body.get(ACTION_AT) == Some(&PROHIBIT)
        && number(FRA_PRIORITY) == Some(PRIORITY + u32::from(block))
        && number(FRA_FWMASK) == Some(MARK_MASK);
    let source = attribute(&attributes, FRA_SRC).filter(|_| is_ours)?;
    let address = match <[u8; 4]>::try_from(source) {
        Ok(v4) => IpAddr::from(v4),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(source).ok()?),
    };
    Cidr::new(address, *message.body.get(2)?)
}

fn rule(kind: u16, flags: libc::c_int, network: Cidr, block: u8) -> Request {
    let mut header = [0; HEADER];
    (header[0], header[2], header[ACTION_AT]) = (family(network.address()), network.prefix(), PROHIBIT);
    let mut request = Request::new(kind, flags, &header);
    request.address(FRA_SRC, network.address()).u32(FRA_PRIORITY, PRIORITY + u32::from(block));
    request.u32(FRA_FWMARK, 0).u32(FRA_FWMASK, MARK_MASK);
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{World, run};

    #[test]
    fn the_guard_is_there_once_and_can_be_lifted() {
        let Some(world) = World::new() else { return };
        world.on_host(|| {
            let shown = || run("ip", "rule").unwrap() + &run("ip", "-6 rule").unwrap();
            let before = shown();
            let guard = Guard::new(5, "10.213.0.0/16".parse().unwrap()).unwrap();
            guard.hold().unwrap();
            guard.hold().unwrap();
            let held = shown();
            assert_eq!(held.matches("prohibit").count(), 2, "{held}");
            assert!(held.contains("21:\tfrom 10.213.80.0/20 fwmark 0/0x3000 prohibit"), "{held}");
            assert!(held.contains("from fd77:6172:7205::/48"), "{held}");
            let other = Guard::new(6, "10.99.0.0/16".parse().unwrap()).unwrap();
            other.hold().unwrap();
            guard.lift().unwrap();
            guard.lift().unwrap();
            assert!(!shown().contains("10.213"), "{}", shown());
            lift(&mut Socket::open(Protocol::Route).unwrap(), 6).unwrap();
            assert_eq!(shown(), before);
        });
    }
}

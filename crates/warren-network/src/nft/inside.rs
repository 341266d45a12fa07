//! The rules of a sandbox's own namespace, which belongs to the host: nothing inside can change
//! them.
//!
//! Every address that a packet is handed to on a link becomes an entry of the machine's table of
//! neighbours, one for all namespaces, and a full table cuts off everybody. A program reaches
//! any address "on the link" by not routing (`SO_DONTROUTE`, `MSG_DONTROUTE`), and every group and
//! broadcast address without asking. So every packet goes to the gateway, whose entry is there
//! for good, or not at all. Packets come here before their neighbour is looked up.

use super::expr::{Base, Expr, FIRST, Family};
use super::phrase::{accept, compare, discard, is, steps, towards};
use super::wire::{HEADER, NEWCHAIN, NEWRULE, NEWTABLE, chain, rule, table};
use crate::netlink::{NetlinkError, Protocol, Request, Socket};
use crate::place::{GATEWAY, GATEWAY_V6};

const TABLE: &str = "warren";
const CHAIN: &str = "leave";
const POSTROUTING: u32 = 4;
const PRIORITY: i32 = 0;
const DROP: u32 = 0;
/// The first byte of every group address of IPv6.
const GROUPS_V6: u8 = 0xff;
const DESTINATION_V6: u32 = 24;

/// Puts down the rules in the calling thread's namespace.
pub(crate) fn confine() -> Result<(), NetlinkError> {
    let mut requests = vec![new_table(), new_chain()];
    requests.extend(rules().iter().map(|steps| new_rule(steps)));
    Socket::open(Protocol::Netfilter)?.batch(requests)
}

/// The rules. Packets that none of them accepts are dropped.
fn rules() -> [Vec<Expr>; 4] {
    let first_byte = Expr::Payload { base: Base::Network, offset: DESTINATION_V6, length: 1, to: FIRST };
    let via = |family, gateway: &[u8]| {
        steps([is(family), vec![Expr::NextHop(family, FIRST), compare(true, gateway)], accept()])
    };
    [
        // On loopback too: there IPv4 has one neighbour, and IPv6 one for each group.
        steps([is(Family::V6), vec![first_byte, compare(true, &[GROUPS_V6])], discard()]),
        steps([towards("lo\0", true), accept()]),
        via(Family::V4, &GATEWAY.octets()),
        via(Family::V6, &GATEWAY_V6.octets()),
    ]
}

fn new_table() -> Request {
    let mut request = Request::new(NEWTABLE, libc::NLM_F_CREATE, &HEADER);
    request.text(table::NAME, TABLE);
    request
}

fn new_chain() -> Request {
    let mut request = Request::new(NEWCHAIN, libc::NLM_F_CREATE, &HEADER);
    request.text(chain::TABLE, TABLE).text(chain::NAME, CHAIN);
    request.nest(chain::HOOK, |hook| {
        hook.be32(chain::HOOK_NUMBER, POSTROUTING);
        hook.bytes(chain::HOOK_PRIORITY, &PRIORITY.to_be_bytes());
    });
    request.be32(chain::POLICY, DROP).text(chain::KIND, "filter");
    request
}

fn new_rule(steps: &[Expr]) -> Request {
    let mut request = Request::new(NEWRULE, libc::NLM_F_CREATE | libc::NLM_F_APPEND, &HEADER);
    request.text(rule::TABLE, TABLE).text(rule::CHAIN, CHAIN);
    request.nest(rule::EXPRESSIONS, |list| steps.iter().for_each(|step| step.write_in_list(list)));
    request
}

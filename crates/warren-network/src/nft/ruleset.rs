//! The chains and rules of a table.
//!
//! ```text
//!   a sandbox's packet
//!     spoofed   not from its own link, hardware address and address: dropped
//!     arrive    too many: refused
//!               questions (port 53): to the DNS proxy
//!               other sandboxes, closed ranges, the host itself: refused, unless the operator has excepted it
//!     judge     denied: refused; else by the link's class; no class: dropped
//!       direct          forwarded
//!       watched_open    TCP and QUIC refused, the rest forwarded
//!       watched_closed  TCP refused, the rest forwarded if it is opened
//!     refuse    TCP goes to the egress proxy, which allows or explains; one that was forwarded so far is reset;
//!               the rest is told, and answered that it is prohibited
//! ```
//!
//! Every packet is judged, not only the first of a flow, so that a change holds for what is under way. What may be forwarded
//! gets a mark; routing prohibits packets of sandboxes without any, so that nothing is open when the table is gone. Answers
//! to a sandbox are judged by the same elements, the other way round. The host's other traffic leaves every chain at its
//! first rule.

use std::net::{IpAddr, SocketAddr};

use super::expr::{Base, Ct, Expr, FIRST, Family, Limit, Meta, Register, Unit, Verdict};
use super::set::Field;
use super::wire::{DELRULE, HEADER, NEWCHAIN, NEWRULE, chain, rule};
use super::{MARK_MASK, Skeleton, log_group};
use crate::netlink::Request;
use crate::place::link_prefix;

/// What the bits of our mark say: may be forwarded, is a question, is for the egress proxy.
const FORWARDED: u32 = 0x1000;
const QUESTION: u32 = 0x2000;
const PROXIED: u32 = 0x3000;

const CT_INVALID: u32 = 1;
const CT_ESTABLISHED: u32 = 2;
const CT_RELATED: u32 = 4;
const CT_NEW: u32 = 8;
const CT_CONFIRMED: u32 = 8;
const CT_DESTINATION_NAT: u32 = 32;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ETHERNET: u16 = 1;

/// What is copied of a packet that is told: enough for its addresses and ports.
const TOLD_BYTES: u32 = 96;
/// So many packets of one link are told.
const TOLD: Limit = Limit { of: Unit::Packets, per_second: 20, burst: 60 };

/// What a told packet was refused for.
const TOLD_POLICY: &str = "policy";
pub(crate) const TOLD_LIMIT: &str = "limit";

/// A chain; with a hook if packets come to it from outside the table.
struct Chain {
    name: &'static str,
    hook: Option<Hook>,
}

struct Hook {
    kind: &'static str,
    number: u32,
    priority: i32,
}

const PREROUTING: u32 = 0;
const INPUT: u32 = 1;
const FORWARD: u32 = 2;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;

const fn hooked(name: &'static str, kind: &'static str, number: u32, priority: i32) -> Chain {
    Chain { name, hook: Some(Hook { kind, number, priority }) }
}

const fn inner(name: &'static str) -> Chain {
    Chain { name, hook: None }
}

/// Those that others go to come first. Priorities: `spoofed` is before connections are looked up, `divert` before
/// anybody else's destination NAT, the filters before other tables' so that it is our answer that a sandbox gets.
const CHAINS: [Chain; 19] = [
    inner("turned_away"),
    inner("refused"),
    inner("refuse"),
    inner("direct"),
    inner("watched_open"),
    inner("watched_closed"),
    inner("judge"),
    inner("back"),
    inner("question"),
    inner("too_fast"),
    inner("too_many"),
    inner("limits"),
    hooked("spoofed", "filter", PREROUTING, -300),
    hooked("arrive", "filter", PREROUTING, -150),
    hooked("divert", "nat", PREROUTING, -110),
    hooked("deliver", "filter", INPUT, -10),
    hooked("carry", "filter", FORWARD, -10),
    hooked("answer", "filter", OUTPUT, -10),
    hooked("leave", "nat", POSTROUTING, 90),
];

/// A rule: its chain and its steps.
type Rule = (&'static str, Vec<Expr>);

/// The requests that make all chains, or find them as they are.
pub(super) fn chains(table: &str) -> Vec<Request> {
    let request = |declared: &Chain| {
        let mut request = Request::new(NEWCHAIN, libc::NLM_F_CREATE, &HEADER);
        request.text(chain::TABLE, table).text(chain::NAME, declared.name);
        if let Some(hook) = &declared.hook {
            const ACCEPT: u32 = 1;
            request.nest(chain::HOOK, |inside| {
                inside.be32(chain::HOOK_NUMBER, hook.number);
                inside.bytes(chain::HOOK_PRIORITY, &hook.priority.to_be_bytes());
            });
            request.be32(chain::POLICY, ACCEPT).text(chain::KIND, hook.kind);
        }
        request
    };
    CHAINS.iter().map(request).collect()
}

/// The requests that empty all chains.
pub(super) fn emptied(table: &str) -> Vec<Request> {
    let request = |declared: &Chain| {
        let mut request = Request::new(DELRULE, 0, &HEADER);
        request.text(rule::TABLE, table).text(rule::CHAIN, declared.name);
        request
    };
    CHAINS.iter().map(request).collect()
}

/// The requests that fill the chains.
pub(super) fn rules(table: &str, block: u8, skeleton: &Skeleton) -> Vec<Request> {
    let request = |(name, steps): Rule| {
        let mut request = Request::new(NEWRULE, libc::NLM_F_CREATE | libc::NLM_F_APPEND, &HEADER);
        request.text(rule::TABLE, table).text(rule::CHAIN, name);
        request.nest(rule::EXPRESSIONS, |list| {
            for step in &steps {
                step.write_in_list(list);
            }
        });
        request
    };
    let prefix = link_prefix(block);
    let groups =
        [entrance(&prefix), judgement(), refusal(block), diversion(&prefix, skeleton), passage(&prefix)];
    groups.into_iter().flatten().map(request).collect()
}

/// What every packet of a sandbox passes first.
fn entrance(prefix: &str) -> Vec<Rule> {
    let mut rules = vec![("spoofed", steps([from(prefix, false), accept()]))];
    for (family, set) in both("pinned4", "pinned6") {
        let key = key([Part::InLink, Part::EtherSource, Part::Source(family)]);
        rules.push(("spoofed", steps([is(family), ethernet(), key, found(set), accept()])));
    }
    rules.push(("spoofed", discard()));
    rules.push(("arrive", steps([from(prefix, false), accept()])));
    rules.push(("arrive", mark(0)));
    rules.push(("arrive", steps([ct_state(CT_INVALID), discard()])));
    rules.push(("arrive", steps([is_reply(), discard()])));
    rules.push(("arrive", steps([key([Part::InLink]), found("ups"), discard()])));
    rules.push(("arrive", steps([ct_status(CT_CONFIRMED, false), jump("limits")])));
    let asks = steps([key([Part::Transport]), found("ported"), port_is(Part::DestinationPort, 53)]);
    rules.push(("arrive", steps([asks, goto("question")])));
    rules.extend(destinations(["own4", "own6"], "refuse"));
    for (family, set) in both("excepted4", "excepted6") {
        let key = key([Part::Destination(family), Part::Transport, Part::DestinationPort]);
        rules.push(("arrive", steps([is(family), key, found(set), goto("judge")])));
    }
    rules.extend(destinations(["closed4", "closed6"], "refuse"));
    rules.push(("arrive", steps([key([Part::DestinationKind]), found("here"), goto("refuse")])));
    rules.push(("arrive", goto("judge")));
    rules.push(("limits", steps([key([Part::InLink]), found("rates"), goto("too_fast")])));
    rules.push(("limits", steps([key([Part::InLink]), found("counts"), goto("too_many")])));
    rules
}

fn destinations(sets: [&'static str; 2], chain: &'static str) -> Vec<Rule> {
    let rule = |(family, set)| {
        ("arrive", steps([is(family), key([Part::Destination(family)]), found(set), goto(chain)]))
    };
    both(sets[0], sets[1]).map(rule).to_vec()
}

/// What is open to whom.
fn judgement() -> Vec<Rule> {
    let mut rules = vec![("judge", steps([key([Part::Transport]), absent("known"), goto("refused")]))];
    for (family, set) in both("denied4", "denied6") {
        rules.push(("judge", steps([is(family), there(family), found(set), goto("refuse")])));
        rules.push(("back", steps([is(family), back(family), found(set), discard()])));
    }
    rules.push(("judge", steps([key([Part::InLink]), class()])));
    rules.push(("judge", discard()));
    rules.push(("back", steps([key([Part::OutLink]), class()])));
    rules.push(("back", discard()));
    rules.push(("direct", steps([mark(FORWARDED), accept()])));
    rules.push(("watched_open", steps([transport(TCP), goto("refuse")])));
    let quic = steps([is_original(), transport(UDP), port_is(Part::DestinationPort, 443)]);
    rules.push(("watched_open", steps([quic, goto("refuse")])));
    rules.push(("watched_open", goto("direct")));
    rules.push(("watched_closed", steps([transport(TCP), goto("refuse")])));
    for (family, set) in both("opened4", "opened6") {
        let (there, back) = (there(family), back(family));
        rules.push(("watched_closed", steps([is_original(), is(family), there, found(set), goto("direct")])));
        rules.push(("watched_closed", steps([is_reply(), is(family), back, found(set), goto("direct")])));
    }
    rules.push(("watched_closed", goto("refuse")));
    rules
}

/// What becomes of the rest.
fn refusal(block: u8) -> Vec<Rule> {
    let told = |prefix| {
        let update = Expr::Update { set: "told", key: FIRST, limit: TOLD };
        let log = Expr::Log { group: log_group(block), prefix, bytes: TOLD_BYTES };
        steps([key([Part::InLink]), vec![update, log]])
    };
    vec![
        ("question", steps([ct_status(CT_DESTINATION_NAT, true), mark(QUESTION), accept()])),
        ("question", steps([ct_state(CT_NEW), mark(QUESTION), accept()])),
        ("question", goto("refused")),
        // Who is no longer heard finds out when it speaks.
        ("refuse", steps([is_reply(), discard()])),
        ("refuse", steps([ct_status(CT_DESTINATION_NAT, true), mark(PROXIED), accept()])),
        ("refuse", steps([ct_state(CT_NEW), transport(TCP), mark(PROXIED), accept()])),
        ("refuse", goto("refused")),
        // Who dials again gets through a little later.
        ("too_fast", told(TOLD_LIMIT)),
        ("too_fast", discard()),
        ("too_many", told(TOLD_LIMIT)),
        ("too_many", goto("turned_away")),
        ("refused", told(TOLD_POLICY)),
        ("refused", goto("turned_away")),
        ("turned_away", steps([transport(TCP), vec![Expr::RejectReset]])),
        ("turned_away", vec![Expr::RejectProhibited]),
    ]
}

/// To the proxies, and away from everything else of the host.
fn diversion(prefix: &str, skeleton: &Skeleton) -> Vec<Rule> {
    let mut rules = vec![("divert", steps([from(prefix, false), accept()]))];
    let ported = || steps([key([Part::Transport]), found("ported")]);
    for listener in skeleton.dns.addresses() {
        rules.push(("divert", steps([ported(), marked(QUESTION, true), to_listener(listener)])));
    }
    for listener in skeleton.egress.addresses() {
        rules.push(("divert", steps([transport(TCP), marked(PROXIED, true), to_listener(listener)])));
    }
    // The proxies' own addresses are for sandboxes, of whichever block, and for the host itself.
    let elsewhere = || steps([from("wrn", false), from("lo\0", false)]);
    for listener in skeleton.dns.addresses().chain(skeleton.egress.addresses()) {
        rules.push(("deliver", steps([elsewhere(), to_address(listener.ip()), discard()])));
    }
    rules.push(("deliver", steps([from(prefix, false), accept()])));
    // The host itself, where the operator has excepted it.
    rules.push(("deliver", steps([marked(FORWARDED, true), accept()])));
    let diverted = |bits| steps([ct_status(CT_DESTINATION_NAT, true), marked(bits, true)]);
    for (bits, proxy) in [(QUESTION, skeleton.dns), (PROXIED, skeleton.egress)] {
        for listener in proxy.addresses() {
            let here = steps([is(Family::of(listener.ip())), ported()]);
            let port = port_is(Part::DestinationPort, listener.port());
            rules.push(("deliver", steps([diverted(bits), here, port, accept()])));
        }
    }
    rules.push(("deliver", goto("turned_away")));
    rules
}

/// Through the host.
fn passage(prefix: &str) -> Vec<Rule> {
    let ours = || from(prefix, true);
    // Somebody else's NAT leads where nobody has looked yet.
    let diverted = |family| steps([ours(), ct_status(CT_DESTINATION_NAT, true), is(family)]);
    let excepted = |(family, set)| {
        let key = key([Part::Destination(family), Part::Transport, Part::DestinationPort]);
        ("carry", steps([diverted(family), key, found(set), accept()]))
    };
    let closed = |(family, set)| {
        let key = key([Part::Destination(family)]);
        ("carry", steps([diverted(family), key, found(set), goto("turned_away")]))
    };
    let mut rules = vec![
        ("carry", steps([ours(), marked(FORWARDED, false), goto("turned_away")])),
        ("carry", steps([ours(), towards("wrn", true), goto("turned_away")])),
    ];
    rules.extend(both("excepted4", "excepted6").map(excepted));
    rules.extend(both("closed4", "closed6").map(closed));
    rules.extend([
        ("carry", steps([towards(prefix, false), accept()])),
        ("carry", steps([key([Part::OutLink]), found("downs"), discard()])),
        ("carry", steps([ct_state(CT_RELATED), accept()])),
        ("carry", steps([ct_state(CT_ESTABLISHED), is_reply(), goto("back")])),
        // In the host's own name: in the sandbox's, it would have to be routed like its packets.
        ("carry", vec![Expr::RejectProhibited]),
        ("answer", steps([towards(prefix, false), accept()])),
        ("answer", steps([key([Part::OutLink]), found("downs"), discard()])),
        ("answer", steps([ct_state(CT_ESTABLISHED | CT_RELATED), accept()])),
        ("answer", steps([key([Part::Transport]), found("ported"), goto("turned_away")])),
        ("answer", discard()),
        ("leave", steps([ours(), marked(FORWARDED, true), vec![Expr::Masquerade]])),
    ]);
    rules
}

fn both(v4: &'static str, v6: &'static str) -> [(Family, &'static str); 2] {
    [(Family::V4, v4), (Family::V6, v6)]
}

fn steps<const N: usize>(parts: [Vec<Expr>; N]) -> Vec<Expr> {
    parts.concat()
}

/// Part of a key, as packets have it.
#[derive(Debug, Clone, Copy)]
enum Part {
    InLink,
    OutLink,
    EtherSource,
    Source(Family),
    Destination(Family),
    DestinationKind,
    Transport,
    SourcePort,
    DestinationPort,
}

impl Part {
    fn field(self) -> Field {
        match self {
            Self::InLink | Self::OutLink => Field::Link,
            Self::EtherSource => Field::Ether,
            Self::Source(Family::V4) | Self::Destination(Family::V4) => Field::V4,
            Self::Source(Family::V6) | Self::Destination(Family::V6) => Field::V6,
            Self::DestinationKind => Field::Kind,
            Self::Transport => Field::Transport,
            Self::SourcePort | Self::DestinationPort => Field::Port,
        }
    }

    fn load(self, to: Register) -> Expr {
        let payload = |base, offset| Expr::Payload { base, offset, length: self.field().length(), to };
        match self {
            Self::InLink => Expr::Meta(Meta::InName, to),
            Self::OutLink => Expr::Meta(Meta::OutName, to),
            Self::EtherSource => payload(Base::Link, 6),
            Self::Source(Family::V4) => payload(Base::Network, 12),
            Self::Source(Family::V6) => payload(Base::Network, 8),
            Self::Destination(Family::V4) => payload(Base::Network, 16),
            Self::Destination(Family::V6) => payload(Base::Network, 24),
            Self::DestinationKind => Expr::FibDestination(to),
            Self::Transport => Expr::Meta(Meta::Transport, to),
            Self::SourcePort => payload(Base::Transport, 0),
            Self::DestinationPort => payload(Base::Transport, 2),
        }
    }
}

/// Loads a key into the first registers, part by part.
fn key<const N: usize>(parts: [Part; N]) -> Vec<Expr> {
    let mut at = 0;
    let load = |part: Part| {
        let expression = part.load(Register(at));
        at += u8::try_from(part.field().padded() / 4).unwrap_or(u8::MAX);
        expression
    };
    parts.into_iter().map(load).collect()
}

/// Who wants to reach what, as the sandbox's packets say it, and as the answers to them do.
fn there(family: Family) -> Vec<Expr> {
    key([Part::Source(family), Part::Destination(family), Part::Transport, Part::DestinationPort])
}

fn back(family: Family) -> Vec<Expr> {
    key([Part::Destination(family), Part::Source(family), Part::Transport, Part::SourcePort])
}

fn found(set: &'static str) -> Vec<Expr> {
    vec![Expr::Lookup { set, key: FIRST, found: true }]
}

fn absent(set: &'static str) -> Vec<Expr> {
    vec![Expr::Lookup { set, key: FIRST, found: false }]
}

fn class() -> Vec<Expr> {
    vec![Expr::VerdictMap { map: "class", key: FIRST }]
}

fn compare(equal: bool, value: &[u8]) -> Expr {
    Expr::Cmp { register: FIRST, equal, value: value.to_vec() }
}

/// Whether a packet comes from a link whose name begins like this.
fn from(prefix: &str, comes: bool) -> Vec<Expr> {
    vec![Part::InLink.load(FIRST), compare(comes, prefix.as_bytes())]
}

fn towards(prefix: &str, goes: bool) -> Vec<Expr> {
    vec![Part::OutLink.load(FIRST), compare(goes, prefix.as_bytes())]
}

fn is(family: Family) -> Vec<Expr> {
    vec![Expr::Meta(Meta::NetworkProtocol, FIRST), compare(true, &[family.number()])]
}

fn ethernet() -> Vec<Expr> {
    vec![Expr::Meta(Meta::InType, FIRST), compare(true, &ETHERNET.to_ne_bytes())]
}

fn transport(number: u8) -> Vec<Expr> {
    vec![Part::Transport.load(FIRST), compare(true, &[number])]
}

fn port_is(part: Part, port: u16) -> Vec<Expr> {
    vec![part.load(FIRST), compare(true, &port.to_be_bytes())]
}

/// Whether the flow is in one of these states.
fn ct_state(bits: u32) -> Vec<Expr> {
    vec![Expr::Ct(Ct::State, FIRST), masked(bits), compare(false, &0_u32.to_ne_bytes())]
}

fn ct_status(bits: u32, set: bool) -> Vec<Expr> {
    vec![Expr::Ct(Ct::Status, FIRST), masked(bits), compare(!set, &0_u32.to_ne_bytes())]
}

fn is_reply() -> Vec<Expr> {
    vec![Expr::Ct(Ct::Direction, FIRST), compare(true, &[1])]
}

fn is_original() -> Vec<Expr> {
    vec![Expr::Ct(Ct::Direction, FIRST), compare(true, &[0])]
}

fn masked(mask: u32) -> Expr {
    Expr::Bitwise { register: FIRST, mask, xor: 0 }
}

/// Sets our bits of the mark, and only those.
fn mark(bits: u32) -> Vec<Expr> {
    let change = Expr::Bitwise { register: FIRST, mask: !MARK_MASK, xor: bits };
    vec![Expr::Meta(Meta::Mark, FIRST), change, Expr::SetMark(FIRST)]
}

fn marked(bits: u32, so: bool) -> Vec<Expr> {
    vec![Expr::Meta(Meta::Mark, FIRST), masked(MARK_MASK), compare(so, &bits.to_ne_bytes())]
}

fn accept() -> Vec<Expr> {
    vec![Expr::Verdict(Verdict::Accept)]
}

fn discard() -> Vec<Expr> {
    vec![Expr::Verdict(Verdict::Drop)]
}

fn jump(chain: &'static str) -> Vec<Expr> {
    vec![Expr::Verdict(Verdict::Jump(chain))]
}

fn goto(chain: &'static str) -> Vec<Expr> {
    vec![Expr::Verdict(Verdict::Goto(chain))]
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Whether a packet is for this address.
fn to_address(address: IpAddr) -> Vec<Expr> {
    let family = Family::of(address);
    steps([is(family), vec![Part::Destination(family).load(FIRST), compare(true, &octets(address))]])
}

/// To a proxy of the host, for packets of its family.
fn to_listener(listener: SocketAddr) -> Vec<Expr> {
    const PORT: Register = Register(4);
    let family = Family::of(listener.ip());
    let load = vec![
        Expr::Immediate { to: FIRST, value: octets(listener.ip()) },
        Expr::Immediate { to: PORT, value: listener.port().to_be_bytes().to_vec() },
        Expr::DestinationNat { family, address: FIRST, port: PORT },
    ];
    steps([is(family), load])
}

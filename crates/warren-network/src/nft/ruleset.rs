//! The chains and rules of a table.
//!
//! ```text
//!   a sandbox's packet
//!     spoofed   not from its own link, hardware address and address: dropped
//!     arrive    packets of no flow, or of one that others began: dropped
//!     fresh     the first of a flow. Refused if there are too many, or no policy can open
//!               the protocol
//!     course    questions (port 53): to the DNS proxy
//!     inside    other sandboxes, closed ranges, the host itself: refused, unless the
//!               operator has excepted it
//!     judge     by the link's class; no class: dropped
//!       direct, direct_but  forwarded, but for what is denied
//!       watched_open        TCP, QUIC and what is denied refused, the rest forwarded
//!       watched_closed      refused, but for what is opened and neither TCP nor denied
//!     refuse    TCP goes to the egress proxy, which allows or explains; a connection that was
//!               forwarded so far is reset; the rest is reported and answered as prohibited
//!     outwards  only marked packets are forwarded, and not where another NAT leads inside
//! ```
//!
//! Every packet is judged, not only the first of a flow, so that a change holds for what is under
//! way. What may be forwarded gets a mark; routing prohibits packets of sandboxes without any, so
//! that nothing is open when the table is gone. Answers to a sandbox are judged by the same
//! elements, the other way round. The host's other traffic leaves every chain at its first rule.

use super::element::CLASSES;
use super::expr::{Expr, FIRST, Family, Limit};
use super::phrase::{
    Part, absent, accept, back, both, ct_state, ct_status, discard, ethernet, found, from, goto, is,
    is_original, is_reply, jump, key, mark, marked, port_is, steps, there, to_address, to_listener, towards,
    transport,
};
use super::wire::{DELRULE, HEADER, NEWCHAIN, NEWRULE, chain, rule};
use super::{Skeleton, log_group};
use crate::netlink::Request;
use crate::place::link_prefix;

/// The bits of our mark: may be forwarded, is a question, is for the egress proxy.
const FORWARDED: u32 = 0x1000;
const QUESTION: u32 = 0x2000;
const PROXIED: u32 = 0x3000;

const CT_INVALID: u32 = 1;
const CT_ESTABLISHED: u32 = 2;
const CT_RELATED: u32 = 4;
const CT_NEW: u32 = 8;
const CT_UNTRACKED: u32 = 64;
const CT_CONFIRMED: u32 = 8;
const CT_DESTINATION_NAT: u32 = 32;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The bytes that are copied of a reported packet: enough for its addresses and ports.
const TOLD_BYTES: u32 = 96;
/// So many packets of one link are told.
const TOLD: Limit = Limit { per_second: 20, burst: 60 };

/// The reasons for which a reported packet was refused.
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

/// The chains; those that others jump to come first. Priorities: `spoofed` is before connections
/// are looked up, `divert` before other tables' destination NAT, and the filters before other
/// tables' filters, so that a sandbox gets our answer.
const CHAINS: [Chain; 25] = [
    inner("turned_away"),
    inner("refused"),
    inner("refuse"),
    inner("denied"),
    inner("direct"),
    inner("direct_but"),
    inner("watched_open"),
    inner("watched_closed"),
    inner("judge"),
    inner("back"),
    inner("question"),
    inner("too_fast"),
    inner("too_many"),
    inner("inside"),
    inner("course"),
    inner("fresh"),
    inner("rerouted"),
    inner("outwards"),
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

/// The first rules for every packet of a sandbox.
fn entrance(prefix: &str) -> Vec<Rule> {
    let mut rules = vec![("spoofed", steps([from(prefix, false), accept()]))];
    for (family, set) in both("pinned4", "pinned6") {
        let key = key([Part::InLink, Part::EtherSource, Part::Source(family)]);
        rules.push(("spoofed", steps([is(family), ethernet(), key, found(set), accept()])));
    }
    rules.push(("spoofed", discard()));
    rules.push(("arrive", steps([from(prefix, false), accept()])));
    rules.push(("arrive", steps([ct_state(CT_INVALID | CT_UNTRACKED), discard()])));
    rules.push(("arrive", steps([is_reply(), discard()])));
    rules.push(("arrive", steps([ct_status(CT_CONFIRMED, false), goto("fresh")])));
    rules.push(("arrive", goto("course")));
    let asks = || {
        steps([port_is(Part::DestinationPort, 53), key([Part::Transport]), found("ported"), goto("question")])
    };
    rules.push(("fresh", steps([key([Part::InLink]), found("rates"), goto("too_fast")])));
    rules.push(("fresh", steps([key([Part::InLink]), found("counts"), goto("too_many")])));
    rules.push(("fresh", asks()));
    rules.push(("fresh", steps([key([Part::Transport]), absent("known"), goto("refused")])));
    // What is the host's own changes seldom, and to find out takes time: once for each flow.
    rules.push(("fresh", steps([key([Part::DestinationKind]), found("here"), goto("inside")])));
    rules.push(("fresh", goto("course")));
    rules.push(("course", asks()));
    for (family, set) in both("closed4", "closed6") {
        let there = steps([is(family), key([Part::Destination(family)])]);
        rules.push(("course", steps([there, found(set), goto("inside")])));
    }
    rules.push(("course", goto("judge")));
    for (family, set) in both("own4", "own6") {
        let there = steps([is(family), key([Part::Destination(family)])]);
        rules.push(("inside", steps([there, found(set), goto("refuse")])));
    }
    rules.extend(both("excepted4", "excepted6").map(|at| ("inside", steps([excepted(at), goto("judge")]))));
    rules.push(("inside", goto("refuse")));
    rules
}

/// Matches packets for a target that the operator has opened.
fn excepted((family, set): (Family, &'static str)) -> Vec<Expr> {
    let there = key([Part::Destination(family), Part::Transport, Part::DestinationPort]);
    steps([is(family), there, found(set)])
}

/// The rules that open targets.
fn judgement() -> Vec<Rule> {
    let mut rules = Vec::new();
    for (chain, link) in [("judge", Part::InLink), ("back", Part::OutLink)] {
        rules.extend(CLASSES.map(|class| (chain, steps([key([link]), found(class), goto(class)]))));
        rules.push((chain, discard()));
    }
    rules.extend([
        ("direct", steps([mark(FORWARDED), accept()])),
        ("direct_but", jump("denied")),
        ("direct_but", goto("direct")),
    ]);
    for (family, set) in both("denied4", "denied6") {
        let (there, back) = (there(family), back(family));
        rules.push(("denied", steps([is_original(), is(family), there, found(set), goto("refuse")])));
        rules.push(("denied", steps([is_reply(), is(family), back, found(set), discard()])));
    }
    rules.push(("watched_open", steps([transport(TCP), goto("refuse")])));
    rules.push(("watched_open", jump("denied")));
    let quic = steps([is_original(), transport(UDP), port_is(Part::DestinationPort, 443)]);
    rules.push(("watched_open", steps([quic, goto("refuse")])));
    rules.push(("watched_open", goto("direct")));
    rules.push(("watched_closed", steps([transport(TCP), goto("refuse")])));
    rules.push(("watched_closed", jump("denied")));
    for (family, set) in both("opened4", "opened6") {
        let (there, back) = (there(family), back(family));
        rules.push(("watched_closed", steps([is_original(), is(family), there, found(set), goto("direct")])));
        rules.push(("watched_closed", steps([is_reply(), is(family), back, found(set), goto("direct")])));
    }
    rules.push(("watched_closed", goto("refuse")));
    rules
}

/// The rules for all other packets.
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
    // A connection that went to a proxy goes on, whatever class the link has now.
    for listener in skeleton.dns.addresses().chain(skeleton.egress.addresses()) {
        let diverted = steps([ct_status(CT_DESTINATION_NAT, true), to_address(listener.ip()), ported()]);
        let port = port_is(Part::DestinationPort, listener.port());
        rules.push(("deliver", steps([diverted, port, accept()])));
    }
    // The host itself, where the operator has excepted it.
    for at in both("excepted4", "excepted6") {
        rules.push(("deliver", steps([marked(FORWARDED, true), excepted(at), accept()])));
    }
    rules.push(("deliver", goto("turned_away")));
    rules
}

/// Through the host.
fn passage(prefix: &str) -> Vec<Rule> {
    let mut rules = vec![
        ("outwards", steps([marked(FORWARDED, false), goto("turned_away")])),
        ("outwards", steps([ct_status(CT_DESTINATION_NAT, true), goto("rerouted")])),
        ("outwards", accept()),
    ];
    // Somebody else's NAT leads where nobody has looked yet.
    rules.extend(both("excepted4", "excepted6").map(|at| ("rerouted", steps([excepted(at), accept()]))));
    for (family, set) in both("closed4", "closed6") {
        let there = steps([is(family), key([Part::Destination(family)])]);
        rules.push(("rerouted", steps([there, found(set), goto("turned_away")])));
    }
    rules.extend([
        ("rerouted", accept()),
        ("carry", steps([from(prefix, true), goto("outwards")])),
        ("carry", steps([towards(prefix, false), accept()])),
        ("carry", steps([ct_state(CT_ESTABLISHED), is_reply(), goto("back")])),
        ("carry", steps([ct_state(CT_RELATED), accept()])),
        // In the host's own name: in the sandbox's, it would have to be routed like its packets.
        ("carry", vec![Expr::RejectProhibited]),
        ("answer", steps([towards(prefix, false), accept()])),
        ("answer", steps([ct_state(CT_ESTABLISHED | CT_RELATED), accept()])),
        ("answer", steps([key([Part::Transport]), found("ported"), goto("turned_away")])),
        ("answer", discard()),
        ("leave", steps([from(prefix, true), marked(FORWARDED, true), vec![Expr::Masquerade]])),
    ]);
    rules
}

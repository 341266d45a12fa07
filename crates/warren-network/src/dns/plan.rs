use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::op::Query;
use hickory_proto::rr::{DNSClass, RecordType};
use warren_core::network::{
    Cidr, ClosedRange, Decision, NetworkPolicy, NetworkRule, NetworkVerdict, Protocol, Why, Wish,
};
use warren_core::{HostName, NetworkMode};

use super::question::host_name;
use crate::book::{Book, Guest};
use crate::place::GATEWAY;
use crate::report::Incident;

/// The next step for one question, and the report of it.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) step: Step,
    pub(super) incident: Option<Incident>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// A server is asked. Only the root has no name.
    Ask(Option<HostName>),
    /// It is answered with this, and nobody else hears of it.
    Address(IpAddr),
    Nothing,
    NoSuchName,
    Refuse,
}

/// The types that are asked for. Records of other types could hold what we do not know how to read:
/// addresses among it.
const ASKED: [RecordType; 25] = [
    RecordType::A,
    RecordType::AAAA,
    RecordType::CAA,
    RecordType::CDNSKEY,
    RecordType::CDS,
    RecordType::CERT,
    RecordType::CNAME,
    RecordType::DNSKEY,
    RecordType::DS,
    RecordType::HINFO,
    RecordType::MX,
    RecordType::NAPTR,
    RecordType::NS,
    RecordType::NSEC,
    RecordType::NSEC3,
    RecordType::NSEC3PARAM,
    RecordType::OPENPGPKEY,
    RecordType::PTR,
    RecordType::RRSIG,
    RecordType::SMIMEA,
    RecordType::SOA,
    RecordType::SRV,
    RecordType::SSHFP,
    RecordType::TLSA,
    RecordType::TXT,
];

/// How much is told of a name that is none: every byte of it may be written as four.
const MOST_SHOWN: usize = 253;

impl Plan {
    /// A name is judged once, as it was asked. What no policy allows stays on this machine; a name
    /// that may not be reached, or that somebody has yet to be asked about, is answered with the
    /// gateway, where the connection that follows is explained.
    pub(super) fn of(book: &Book, guest: &Guest, query: &Query) -> Self {
        if query.query_class != DNSClass::IN || is_meta(query.query_type) {
            return Self::silent(Step::Refuse);
        }
        if query.name.is_root() {
            return Self::silent(of_root(guest, query.query_type));
        }
        // What is no host name can have no pin, and no rule can speak of it.
        let Some(name) = host_name(&query.name) else {
            let host = query.name.to_ascii().chars().take(MOST_SHOWN).collect();
            let incident = incident(NetworkVerdict::Denied, host, "not a host name".to_owned());
            return Self { step: Step::NoSuchName, incident: Some(incident) };
        };
        if let Some(step) = of_special(&name, query.query_type) {
            return Self::silent(step);
        }
        of_name(book, guest, name, query.query_type)
    }

    fn silent(step: Step) -> Self {
        Self { step, incident: None }
    }
}

fn of_name(book: &Book, guest: &Guest, name: HostName, wanted: RecordType) -> Plan {
    match decide(book, guest, &name) {
        Decision::Allowed(why) => {
            let told =
                is_told(guest).then(|| incident(NetworkVerdict::Allowed, name.to_string(), why.to_string()));
            Plan { step: of_allowed(book, name, wanted), incident: told }
        }
        Decision::Ask => Plan::silent(instead(&name, wanted)),
        Decision::Denied(why) => {
            let step = match why {
                Why::Mode(NetworkMode::None) => Step::Refuse,
                _ => instead(&name, wanted),
            };
            Plan { step, incident: Some(denied(&name, &why)) }
        }
    }
}

fn of_allowed(book: &Book, name: HostName, wanted: RecordType) -> Step {
    if is_closed_reverse(&name, book.exceptions()) {
        return Step::NoSuchName;
    }
    if ASKED.contains(&wanted) { Step::Ask(Some(name)) } else { Step::Nothing }
}

/// The answer for a name that the sandbox may not ask about, or not yet.
pub(super) fn instead(name: &HostName, wanted: RecordType) -> Step {
    if reverse(name).is_some() {
        return Step::NoSuchName;
    }
    if wanted == RecordType::A { Step::Address(GATEWAY.into()) } else { Step::Nothing }
}

/// The root is nobody's name: who checks signatures asks for its keys, where everything is open.
fn of_root(guest: &Guest, wanted: RecordType) -> Step {
    let open = guest.policies.borrow().iter().all(NetworkPolicy::is_open);
    if open && ASKED.contains(&wanted) && !wanted.is_ip_addr() { Step::Ask(None) } else { Step::Nothing }
}

/// Names that mean the same everywhere, by RFC 6761 and RFC 7686.
fn of_special(name: &HostName, wanted: RecordType) -> Option<Step> {
    let top = name.as_str().rsplit('.').next();
    match (top, wanted) {
        (Some("localhost"), RecordType::A) => Some(Step::Address(Ipv4Addr::LOCALHOST.into())),
        (Some("localhost"), RecordType::AAAA) => Some(Step::Address(Ipv6Addr::LOCALHOST.into())),
        (Some("localhost"), _) => Some(Step::Nothing),
        (Some("invalid" | "onion"), _) => Some(Step::NoSuchName),
        _ => None,
    }
}

/// Types that ask for more than one type, for a whole zone, or for what is no record.
fn is_meta(wanted: RecordType) -> bool {
    let code = u16::from(wanted);
    wanted.is_zero() || wanted == RecordType::OPT || (128..=255).contains(&code)
}

/// True if questions that are allowed are reported too, as connections are.
fn is_told(guest: &Guest) -> bool {
    let policies = guest.policies.borrow();
    policies.iter().any(|policy| !matches!(policy.mode, NetworkMode::None | NetworkMode::Public))
}

pub(super) fn decide(book: &Book, guest: &Guest, name: &HostName) -> Decision {
    book.decide(guest, &Wish { protocol: Protocol::Dns, name: Some(name), address: None, port: 0 })
}

/// The report of a question about a name that is denied.
pub(super) fn denied(name: &HostName, why: &Why) -> Incident {
    incident(NetworkVerdict::Denied, name.to_string(), why.to_string())
}

fn incident(verdict: NetworkVerdict, host: String, rule: String) -> Incident {
    Incident { verdict, protocol: Protocol::Dns, host: Some(host), address: None, port: 0, rule }
}

/// True for the reverse name of a closed address. Its answer would tell about the machine's own
/// network, which is not a sandbox's business.
fn is_closed_reverse(name: &HostName, exceptions: &[NetworkRule]) -> bool {
    let Some(network) = reverse(name) else { return false };
    let address = network.address();
    let around =
        |range: &ClosedRange| range.network.prefix() <= network.prefix() && range.network.contains(address);
    !exceptions.iter().any(|rule| rule.holds(address)) && ClosedRange::ALL.iter().any(around)
}

/// The network that a name below `in-addr.arpa` or `ip6.arpa` speaks of.
pub(super) fn reverse(name: &HostName) -> Option<Cidr> {
    let (name, radix, bits) = match name.as_str() {
        "in-addr.arpa" => ("", 10, 8_u8),
        "ip6.arpa" => ("", 16, 4),
        text => match (text.strip_suffix(".in-addr.arpa"), text.strip_suffix(".ip6.arpa")) {
            (Some(rest), _) => (rest, 10, 8),
            (_, Some(rest)) => (rest, 16, 4),
            _ => return None,
        },
    };
    let whole: u8 = if radix == 10 { 32 } else { 128 };
    let (mut value, mut prefix) = (0_u128, 0_u8);
    // What stands before the numbers, or is no number, is inside the network that the numbers speak
    // of.
    for label in name.rsplit('.') {
        let digit = u32::from_str_radix(label, radix).ok().filter(|digit| *digit < 1 << bits);
        let Some(digit) = digit.filter(|_| prefix < whole) else { break };
        value = value << bits | u128::from(digit);
        prefix += bits;
    }
    let value = value.checked_shl((whole - prefix).into()).unwrap_or(0);
    let address = match u32::try_from(value) {
        Ok(value) if whole == 32 => IpAddr::from(Ipv4Addr::from_bits(value)),
        _ => IpAddr::from(Ipv6Addr::from_bits(value)),
    };
    Cidr::new(address, prefix)
}

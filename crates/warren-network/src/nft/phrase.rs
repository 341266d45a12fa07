//! The words that rules are put together from: each gives the steps for one condition or one
//! consequence.

use std::net::{IpAddr, SocketAddr};

use super::MARK_MASK;
use super::expr::{Base, Ct, Expr, FIRST, Family, Meta, Register, Verdict};
use super::set::Field;

const ETHERNET: u16 = 1;

pub(super) fn both(v4: &'static str, v6: &'static str) -> [(Family, &'static str); 2] {
    [(Family::V4, v4), (Family::V6, v6)]
}

pub(super) fn steps<const N: usize>(parts: [Vec<Expr>; N]) -> Vec<Expr> {
    parts.concat()
}

/// Part of a key, as packets have it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
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
pub(super) fn key<const N: usize>(parts: [Part; N]) -> Vec<Expr> {
    let mut at = 0;
    let load = |part: Part| {
        let expression = part.load(Register(at));
        at += u8::try_from(part.field().padded() / 4).unwrap_or(u8::MAX);
        expression
    };
    parts.into_iter().map(load).collect()
}

/// Loads the source and the target, as the sandbox's packets have them. Answers have them the other
/// way round.
pub(super) fn there(family: Family) -> Vec<Expr> {
    key([Part::Source(family), Part::Destination(family), Part::Transport, Part::DestinationPort])
}

pub(super) fn back(family: Family) -> Vec<Expr> {
    key([Part::Destination(family), Part::Source(family), Part::Transport, Part::SourcePort])
}

pub(super) fn found(set: &'static str) -> Vec<Expr> {
    vec![Expr::Lookup { set, key: FIRST, found: true }]
}

pub(super) fn absent(set: &'static str) -> Vec<Expr> {
    vec![Expr::Lookup { set, key: FIRST, found: false }]
}

pub(super) fn compare(equal: bool, value: &[u8]) -> Expr {
    Expr::Cmp { register: FIRST, equal, value: value.to_vec() }
}

/// Matches packets from a link whose name begins like this.
pub(super) fn from(prefix: &str, comes: bool) -> Vec<Expr> {
    vec![Part::InLink.load(FIRST), compare(comes, prefix.as_bytes())]
}

pub(super) fn towards(prefix: &str, goes: bool) -> Vec<Expr> {
    vec![Part::OutLink.load(FIRST), compare(goes, prefix.as_bytes())]
}

pub(super) fn is(family: Family) -> Vec<Expr> {
    vec![Expr::Meta(Meta::NetworkProtocol, FIRST), compare(true, &[family.number()])]
}

pub(super) fn ethernet() -> Vec<Expr> {
    vec![Expr::Meta(Meta::InType, FIRST), compare(true, &ETHERNET.to_ne_bytes())]
}

pub(super) fn transport(number: u8) -> Vec<Expr> {
    vec![Part::Transport.load(FIRST), compare(true, &[number])]
}

pub(super) fn port_is(part: Part, port: u16) -> Vec<Expr> {
    vec![part.load(FIRST), compare(true, &port.to_be_bytes())]
}

/// Matches flows in one of these states.
pub(super) fn ct_state(bits: u32) -> Vec<Expr> {
    vec![Expr::Ct(Ct::State, FIRST), masked(bits), compare(false, &0_u32.to_ne_bytes())]
}

pub(super) fn ct_status(bits: u32, set: bool) -> Vec<Expr> {
    vec![Expr::Ct(Ct::Status, FIRST), masked(bits), compare(!set, &0_u32.to_ne_bytes())]
}

pub(super) fn is_reply() -> Vec<Expr> {
    vec![Expr::Ct(Ct::Direction, FIRST), compare(true, &[1])]
}

pub(super) fn is_original() -> Vec<Expr> {
    vec![Expr::Ct(Ct::Direction, FIRST), compare(true, &[0])]
}

fn masked(mask: u32) -> Expr {
    Expr::Bitwise { register: FIRST, mask, xor: 0 }
}

/// Sets our bits of the mark, and only those.
pub(super) fn mark(bits: u32) -> Vec<Expr> {
    let change = Expr::Bitwise { register: FIRST, mask: !MARK_MASK, xor: bits };
    vec![Expr::Meta(Meta::Mark, FIRST), change, Expr::SetMark(FIRST)]
}

pub(super) fn marked(bits: u32, so: bool) -> Vec<Expr> {
    vec![Expr::Meta(Meta::Mark, FIRST), masked(MARK_MASK), compare(so, &bits.to_ne_bytes())]
}

pub(super) fn accept() -> Vec<Expr> {
    vec![Expr::Verdict(Verdict::Accept)]
}

pub(super) fn discard() -> Vec<Expr> {
    vec![Expr::Verdict(Verdict::Drop)]
}

pub(super) fn jump(chain: &'static str) -> Vec<Expr> {
    vec![Expr::Verdict(Verdict::Jump(chain))]
}

pub(super) fn goto(chain: &'static str) -> Vec<Expr> {
    vec![Expr::Verdict(Verdict::Goto(chain))]
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Matches packets for this address.
pub(super) fn to_address(address: IpAddr) -> Vec<Expr> {
    let family = Family::of(address);
    steps([is(family), vec![Part::Destination(family).load(FIRST), compare(true, &octets(address))]])
}

/// To a proxy of the host, for packets of its family.
pub(super) fn to_listener(listener: SocketAddr) -> Vec<Expr> {
    const PORT: Register = Register(4);
    let family = Family::of(listener.ip());
    let load = vec![
        Expr::Immediate { to: FIRST, value: octets(listener.ip()) },
        Expr::Immediate { to: PORT, value: listener.port().to_be_bytes().to_vec() },
        Expr::DestinationNat { family, address: FIRST, port: PORT },
    ];
    steps([is(family), load])
}

//! The parts of a rule: loads into registers, comparisons, look-ups, and the verdict.

use std::net::IpAddr;

use super::wire::{LIST_ELEM, NFPROTO_IPV4, NFPROTO_IPV6, data, rule};
use crate::netlink::Request;

/// A register of four bytes; longer values go on into the next ones. The first comes after the
/// verdict's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Register(pub(super) u8);

pub(super) const FIRST: Register = Register(0);

/// One step of a rule. A step that does not match ends the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr {
    Meta(Meta, Register),
    SetMark(Register),
    Payload {
        base: Base,
        offset: u32,
        length: u32,
        to: Register,
    },
    Ct(Ct, Register),
    /// The neighbour on the link that routing hands the packet to.
    NextHop(Family, Register),
    /// The kind of the destination's address, as routing sees it.
    FibDestination(Register),
    Cmp {
        register: Register,
        equal: bool,
        value: Vec<u8>,
    },
    /// Four bytes: `(register & mask) ^ xor`.
    Bitwise {
        register: Register,
        mask: u32,
        xor: u32,
    },
    Lookup {
        set: &'static str,
        key: Register,
        found: bool,
    },
    Immediate {
        to: Register,
        value: Vec<u8>,
    },
    Verdict(Verdict),
    /// Puts the key into a set for a while and goes on while the limit is kept.
    Update {
        set: &'static str,
        key: Register,
        limit: Limit,
    },
    Log {
        group: u16,
        prefix: &'static str,
        bytes: u32,
    },
    DestinationNat {
        family: Family,
        address: Register,
        port: Register,
    },
    Masquerade,
    /// Refuses with an ICMP message that says so.
    RejectProhibited,
    RejectReset,
    /// In an element of a set: matches when there is more than this.
    Over(Limit),
    /// In an element of a set: matches when there are more connections than this.
    OverConnections(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meta {
    Mark,
    InName,
    OutName,
    InType,
    NetworkProtocol,
    Transport,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    Link,
    Network,
    Transport,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ct {
    State,
    Direction,
    Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Drop,
    Jump(&'static str),
    Goto(&'static str),
}

/// So many packets per second, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) per_second: u64,
    pub(super) burst: u32,
}

impl Register {
    /// `NFT_REG32_00` is 8.
    fn number(self) -> u32 {
        8 + u32::from(self.0)
    }
}

impl Family {
    pub(super) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    pub(super) fn number(self) -> u8 {
        match self {
            Self::V4 => NFPROTO_IPV4,
            Self::V6 => NFPROTO_IPV6,
        }
    }
}

impl Meta {
    fn number(self) -> u32 {
        match self {
            Self::Mark => 3,
            Self::InName => 6,
            Self::OutName => 7,
            Self::InType => 8,
            Self::NetworkProtocol => 15,
            Self::Transport => 16,
        }
    }
}

impl Base {
    fn number(self) -> u32 {
        match self {
            Self::Link => 0,
            Self::Network => 1,
            Self::Transport => 2,
        }
    }
}

impl Ct {
    fn number(self) -> u32 {
        match self {
            Self::State => 0,
            Self::Direction => 1,
            Self::Status => 2,
        }
    }
}

impl Limit {
    pub(super) const RATE: u16 = 1;
    const SECONDS: u16 = 2;
    pub(super) const BURST: u16 = 3;
    const KIND: u16 = 4;
    const FLAGS: u16 = 5;
    const OF_PACKETS: u32 = 0;

    fn write(&self, over: bool, to: &mut Request) {
        to.be64(Self::RATE, self.per_second).be64(Self::SECONDS, 1).be32(Self::BURST, self.burst);
        to.be32(Self::KIND, Self::OF_PACKETS).be32(Self::FLAGS, u32::from(over));
    }
}

impl Verdict {
    /// The whole attribute that holds it.
    pub(super) fn write(self, kind: u16, to: &mut Request) {
        let (code, chain) = match self {
            Self::Drop => (0_i32, None),
            Self::Accept => (1, None),
            Self::Jump(chain) => (-3, Some(chain)),
            Self::Goto(chain) => (-4, Some(chain)),
        };
        to.nest(kind, |value| {
            value.nest(data::VERDICT, |verdict| {
                verdict.bytes(data::VERDICT_CODE, &code.to_be_bytes());
                if let Some(chain) = chain {
                    verdict.text(data::VERDICT_CHAIN, chain);
                }
            });
        });
    }
}

impl Expr {
    /// As an element of a list of expressions.
    pub(super) fn write_in_list(&self, to: &mut Request) {
        self.write(LIST_ELEM, to);
    }

    /// As an attribute of this kind: its name, and what it needs to know.
    pub(super) fn write(&self, kind: u16, to: &mut Request) {
        to.nest(kind, |expression| {
            expression.text(rule::EXPRESSION_NAME, self.name());
            expression.nest(rule::EXPRESSION_DATA, |inside| self.write_data(inside));
        });
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Meta(..) | Self::SetMark(_) => "meta",
            Self::Payload { .. } => "payload",
            Self::Ct(..) => "ct",
            Self::NextHop(..) => "rt",
            Self::FibDestination(_) => "fib",
            Self::Cmp { .. } => "cmp",
            Self::Bitwise { .. } => "bitwise",
            Self::Lookup { .. } => "lookup",
            Self::Immediate { .. } | Self::Verdict(_) => "immediate",
            Self::Update { .. } => "dynset",
            Self::Log { .. } => "log",
            Self::DestinationNat { .. } => "nat",
            Self::Masquerade => "masq",
            Self::RejectProhibited | Self::RejectReset => "reject",
            Self::Over(_) => "limit",
            Self::OverConnections(_) => "connlimit",
        }
    }

    fn write_data(&self, to: &mut Request) {
        match self {
            Self::Meta(key, register) => {
                to.be32(1, register.number()).be32(2, key.number());
            }
            Self::SetMark(register) => {
                to.be32(3, register.number()).be32(2, Meta::Mark.number());
            }
            Self::Payload { base, offset, length, to: register } => {
                to.be32(1, register.number()).be32(2, base.number()).be32(3, *offset).be32(4, *length);
            }
            Self::Ct(key, register) => {
                to.be32(1, register.number()).be32(2, key.number());
            }
            Self::NextHop(family, register) => {
                let key = match family {
                    Family::V4 => 1,
                    Family::V6 => 2,
                };
                to.be32(1, register.number()).be32(2, key);
            }
            Self::FibDestination(register) => {
                const ADDRESS_KIND: u32 = 3;
                const OF_DESTINATION: u32 = 2;
                to.be32(1, register.number()).be32(2, ADDRESS_KIND).be32(3, OF_DESTINATION);
            }
            Self::Cmp { register, equal, value } => {
                to.be32(1, register.number()).be32(2, u32::from(!equal));
                write_value(3, value, to);
            }
            Self::Bitwise { register, mask, xor } => {
                to.be32(1, register.number()).be32(2, register.number()).be32(3, 4);
                write_value(4, &mask.to_ne_bytes(), to);
                write_value(5, &xor.to_ne_bytes(), to);
            }
            Self::Lookup { set, key, found } => {
                to.text(1, set).be32(2, key.number()).be32(5, u32::from(!found));
            }
            Self::Immediate { to: register, value } => {
                to.be32(1, register.number());
                write_value(2, value, to);
            }
            Self::Verdict(verdict) => {
                to.be32(1, 0);
                verdict.write(2, to);
            }
            Self::Update { set, key, limit } => {
                const UPDATE: u32 = 1;
                to.text(1, set).be32(3, UPDATE).be32(4, key.number());
                to.nest(7, |expression| {
                    expression.text(rule::EXPRESSION_NAME, "limit");
                    expression.nest(rule::EXPRESSION_DATA, |inside| limit.write(false, inside));
                });
            }
            Self::Log { group, prefix, bytes } => {
                to.be16(1, *group).text(2, prefix).be32(3, *bytes);
            }
            Self::DestinationNat { family, address, port } => {
                const DESTINATION: u32 = 1;
                to.be32(1, DESTINATION).be32(2, family.number().into());
                to.be32(3, address.number()).be32(5, port.number());
            }
            Self::Masquerade => {}
            Self::RejectProhibited => {
                const ICMP_OF_EITHER_FAMILY: u32 = 2;
                const PROHIBITED: u8 = 3;
                to.be32(1, ICMP_OF_EITHER_FAMILY).u8(2, PROHIBITED);
            }
            Self::RejectReset => {
                to.be32(1, 1);
            }
            Self::Over(limit) => limit.write(true, to),
            Self::OverConnections(count) => {
                const OVER: u32 = 1;
                to.be32(1, *count).be32(2, OVER);
            }
        }
    }
}

/// The whole attribute that holds a plain value.
pub(super) fn write_value(kind: u16, value: &[u8], to: &mut Request) {
    to.nest(kind, |inside| {
        inside.bytes(data::VALUE, value);
    });
}

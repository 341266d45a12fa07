//! The sets of a table. Their elements are all that grows with sandboxes; the rules never do.

use super::expr::{Expr, Limit};
use super::wire::{HEADER, LIST_ELEM, NEWSET, set};
use crate::netlink::Request;

/// One part of a key. Each takes whole words of four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Link,
    Ether,
    V4,
    V6,
    Transport,
    Port,
    /// The kind of an address, as routing sees it.
    Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holds {
    Values,
    Ranges,
    /// Values with a limit each, which match when it is exceeded. This one is for those that bring
    /// none.
    Limits(Expr),
    /// Filled by packets, so many at most, each for so long.
    Recent {
        most: u32,
        ms: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) name: &'static str,
    pub(super) key: &'static [Field],
    pub(super) holds: Holds,
    /// Set if its elements belong to links and stay when the rules are replaced.
    pub(super) of_links: bool,
}

use Field::{Ether, Kind, Link, Port, Transport, V4, V6};

const fn fixed(name: &'static str, key: &'static [Field], holds: Holds) -> Set {
    Set { name, key, holds, of_links: false }
}

const fn of_links(name: &'static str, key: &'static [Field], holds: Holds) -> Set {
    Set { name, key, holds, of_links: true }
}

const RATE: Expr = Expr::Over(Limit { per_second: 500, burst: 500 });
const COUNT: Expr = Expr::OverConnections(2500);

/// All of them.
pub(super) static SETS: [Set; 22] = [
    fixed("ported", &[Transport], Holds::Values),
    fixed("known", &[Transport], Holds::Values),
    fixed("here", &[Kind], Holds::Values),
    fixed("own4", &[V4], Holds::Ranges),
    fixed("own6", &[V6], Holds::Ranges),
    fixed("closed4", &[V4], Holds::Ranges),
    fixed("closed6", &[V6], Holds::Ranges),
    fixed("excepted4", &[V4, Transport, Port], Holds::Ranges),
    fixed("excepted6", &[V6, Transport, Port], Holds::Ranges),
    fixed("told", &[Link], Holds::Recent { most: 8192, ms: 10_000 }),
    of_links("pinned4", &[Link, Ether, V4], Holds::Values),
    of_links("pinned6", &[Link, Ether, V6], Holds::Values),
    // One set for each class, and no map from links to chains: for each new element of such a map,
    // the kernel walks all the others.
    of_links("direct", &[Link], Holds::Values),
    of_links("direct_but", &[Link], Holds::Values),
    of_links("watched_open", &[Link], Holds::Values),
    of_links("watched_closed", &[Link], Holds::Values),
    of_links("denied4", &[V4, V4, Transport, Port], Holds::Ranges),
    of_links("denied6", &[V6, V6, Transport, Port], Holds::Ranges),
    of_links("opened4", &[V4, V4, Transport, Port], Holds::Ranges),
    of_links("opened6", &[V6, V6, Transport, Port], Holds::Ranges),
    of_links("rates", &[Link], Holds::Limits(RATE)),
    of_links("counts", &[Link], Holds::Limits(COUNT)),
];

impl Field {
    /// Its bytes, without what fills the last word.
    pub(super) fn length(self) -> u32 {
        match self {
            Self::Link | Self::V6 => 16,
            Self::Ether => 6,
            Self::V4 | Self::Kind => 4,
            Self::Port => 2,
            Self::Transport => 1,
        }
    }

    pub(super) fn padded(self) -> u32 {
        self.length().next_multiple_of(4)
    }

    /// The number of the type that `nft` shows its elements as.
    fn shown_as(self) -> u32 {
        match self {
            Self::V4 => 7,
            Self::V6 => 8,
            Self::Ether => 9,
            Self::Transport => 12,
            Self::Port => 13,
            Self::Kind => 38,
            Self::Link => 41,
        }
    }
}

impl Set {
    /// The request that makes it, or finds it as it is.
    pub(super) fn request(&self, table: &str, id: u32) -> Request {
        let mut request = Request::new(NEWSET, libc::NLM_F_CREATE, &HEADER);
        let shown = self.key.iter().fold(0, |whole, field| whole << 6 | field.shown_as());
        let length = if let [field] = self.key {
            field.length()
        } else {
            self.key.iter().map(|field| field.padded()).sum()
        };
        request.text(set::TABLE, table).text(set::NAME, self.name).be32(set::ID, id);
        request.be32(set::FLAGS, self.flags()).be32(set::KEY_TYPE, shown).be32(set::KEY_LEN, length);
        match &self.holds {
            Holds::Limits(default) => default.write(set::EXPRESSION, &mut request),
            Holds::Recent { most, ms } => {
                request.be64(set::TIMEOUT, *ms).nest(set::DESC, |desc| {
                    desc.be32(set::DESC_SIZE, *most);
                });
            }
            Holds::Ranges if self.is_concatenated() => self.write_fields(&mut request),
            Holds::Ranges | Holds::Values => {}
        }
        request
    }

    /// Ranges of several fields are told apart field by field.
    pub(super) fn is_concatenated(&self) -> bool {
        self.holds == Holds::Ranges && self.key.len() > 1
    }

    fn flags(&self) -> u32 {
        match self.holds {
            Holds::Values | Holds::Limits(_) => 0,
            Holds::Ranges if self.is_concatenated() => set::F_INTERVAL | set::F_CONCAT,
            Holds::Ranges => set::F_INTERVAL,
            Holds::Recent { .. } => set::F_TIMEOUT | set::F_EVAL,
        }
    }

    fn write_fields(&self, to: &mut Request) {
        to.nest(set::DESC, |desc| {
            desc.nest(set::DESC_CONCAT, |fields| {
                for field in self.key {
                    fields.nest(LIST_ELEM, |one| {
                        one.be32(set::FIELD_LEN, field.length());
                    });
                }
            });
        });
    }
}

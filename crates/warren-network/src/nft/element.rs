//! Elements of sets: made for a link, for the fixed sets, and read back from the kernel.

use std::net::IpAddr;

use warren_core::network::{Cidr, ClosedRange, Ports};

use super::expr::{Expr, Limit, write_value};
use super::wire::{DELSETELEM, HEADER, LIST_ELEM, NEWSETELEM, data, element, rule};
use super::{LinkRules, Skeleton};
use crate::netlink::{Attributes, Request, attribute, text};
use crate::rules::{Class, Reach, Rules};

/// Elements in one message: a list cannot be longer than 64 KiB.
const MOST_BYTES: usize = 32 << 10;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const EVERY_PORT: (u16, u16) = (0, u16::MAX);

/// One element of one set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) set: &'static str,
    pub(super) key: Vec<u8>,
    /// The last value of a range of several fields.
    pub(super) last: Option<Vec<u8>>,
    /// It is the first value after a range of one field.
    pub(super) ends: bool,
    pub(super) value: Value,
}

/// The data of an element, besides its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Nothing,
    Over(Limit),
    OverConnections(u32),
    /// Something that this version does not write.
    Foreign,
}

/// A key of fields, each filled up to whole words.
#[derive(Debug, Clone, Default)]
struct Key(Vec<u8>);

impl Key {
    fn with(mut self, field: &[u8]) -> Self {
        self.0.extend_from_slice(field);
        let length = self.0.len().next_multiple_of(4);
        self.0.resize(length, 0);
        self
    }

    fn with_address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.with(&address.octets()),
            IpAddr::V6(address) => self.with(&address.octets()),
        }
    }
}

/// The name of a link as packets have it: filled up with zeros.
pub(super) fn link_key(link: &str) -> Vec<u8> {
    let mut key = link.as_bytes().to_vec();
    key.resize(16, 0);
    key
}

/// The classes of links: sets of links, and chains of the same name for their packets. The first
/// ones are found fastest.
pub(super) const CLASSES: [&str; 4] = ["direct", "direct_but", "watched_open", "watched_closed"];

/// The class that treats packets as these rules say.
fn class_of(rules: &Rules) -> &'static str {
    match rules.class {
        Class::Direct if rules.denied == Reach::default() => "direct",
        Class::Direct => "direct_but",
        Class::WatchedOpen => "watched_open",
        Class::WatchedClosed => "watched_closed",
    }
}

/// All elements of one link.
pub(super) fn of_link(link: &LinkRules) -> Vec<Element> {
    let name = link_key(&link.link);
    let mut elements = Vec::new();
    for address in &link.addresses {
        let pin = Key::default().with(&name).with(&link.mac).with_address(*address);
        elements.push(Element::plain(by_family("pinned4", "pinned6", *address), pin.0));
        elements.extend(ranges(["denied4", "denied6"], Some(*address), &link.rules.denied));
        if link.rules.class == Class::WatchedClosed {
            elements.extend(ranges(["opened4", "opened6"], Some(*address), &link.rules.opened));
        }
    }
    let limits = &link.rules.limits;
    let of_name = |set, value| Element { value, ..Element::plain(set, name.clone()) };
    let rate = limits.new_connections_per_s;
    let per_packet = Limit { per_second: rate.into(), burst: rate };
    elements.push(of_name("rates", Value::Over(per_packet)));
    elements.push(of_name("counts", Value::OverConnections(limits.connections)));
    elements.push(of_name(class_of(&link.rules), Value::Nothing));
    elements
}

/// The elements of the fixed sets.
pub(super) fn of_skeleton(skeleton: &Skeleton) -> Vec<Element> {
    let values = |set, protocols: &[u8]| -> Vec<Element> {
        protocols.iter().map(|number| Element::plain(set, vec![*number])).collect()
    };
    // What routing calls local, broadcast, anycast and multicast.
    let here = (2_u32..=5).map(|kind| Element::plain("here", kind.to_ne_bytes().to_vec()));
    let mut elements = values("ported", &[TCP, UDP]);
    elements.extend(values("known", &[ICMP, TCP, UDP, ICMPV6]));
    elements.extend(here);
    elements.extend(spans(["own4", "own6"], skeleton.subnets.iter().copied()));
    let closed = ClosedRange::ALL.iter().map(|range| range.network).chain(skeleton.subnets.iter().copied());
    elements.extend(spans(["closed4", "closed6"], closed));
    elements.extend(ranges(["excepted4", "excepted6"], None, &skeleton.exceptions));
    elements
}

/// Networks as a set of ranges of one field has them: where each begins, and where it is over.
fn spans(sets: [&'static str; 2], networks: impl Iterator<Item = Cidr>) -> Vec<Element> {
    let mut ends: Vec<(IpAddr, IpAddr)> =
        networks.map(|network| (network.address(), last(network))).collect();
    ends.sort_unstable();
    let mut joined: Vec<(IpAddr, IpAddr)> = Vec::new();
    for (first, last) in ends {
        match joined.last_mut() {
            Some(before) if next(before.1).is_none_or(|next| first <= next) && same(before.1, first) => {
                before.1 = before.1.max(last);
            }
            _ => joined.push((first, last)),
        }
    }
    let mut elements = Vec::new();
    for (first, last) in joined {
        let set = by_family(sets[0], sets[1], first);
        elements.push(Element::plain(set, Key::default().with_address(first).0));
        // A range up to the last address of all has no end.
        elements.extend(next(last).map(|after| Element {
            ends: true,
            ..Element::plain(set, Key::default().with_address(after).0)
        }));
    }
    elements
}

fn same(one: IpAddr, two: IpAddr) -> bool {
    one.is_ipv4() == two.is_ipv4()
}

/// The address after this one.
fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => address.to_bits().checked_add(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(address) => address.to_bits().checked_add(1).map(|bits| IpAddr::V6(bits.into())),
    }
}

/// The last address of a network.
fn last(network: Cidr) -> IpAddr {
    match network.address() {
        IpAddr::V4(first) => {
            let host = u32::MAX.checked_shr(network.prefix().into()).unwrap_or(0);
            IpAddr::V4((first.to_bits() | host).into())
        }
        IpAddr::V6(first) => {
            let host = u128::MAX.checked_shr(network.prefix().into()).unwrap_or(0);
            IpAddr::V6((first.to_bits() | host).into())
        }
    }
}

/// Elements of sets of ranges of several fields, for the targets that a source, or anyone, may
/// reach.
fn ranges(sets: [&'static str; 2], source: Option<IpAddr>, reach: &Reach) -> Vec<Element> {
    let fits = |network: &Cidr| source.is_none_or(|source| same(source, network.address()));
    let range = |network: Cidr, transports: (u8, u8), ports: (u16, u16)| {
        let key = |address: IpAddr, transport: u8, port: u16| {
            let key = source.map_or_else(Key::default, |source| Key::default().with_address(source));
            key.with_address(address).with(&[transport]).with(&port.to_be_bytes()).0
        };
        Element {
            last: Some(key(last(network), transports.1, ports.1)),
            ..Element::plain(
                by_family(sets[0], sets[1], network.address()),
                key(network.address(), transports.0, ports.0),
            )
        }
    };
    let ported = reach.ports.iter().filter(|(network, _)| fits(network));
    // Nothing between the two numbers gets as far as this set.
    let ported = ported.map(|(network, Ports { first, last })| range(*network, (TCP, UDP), (*first, *last)));
    let whole = reach.whole.iter().filter(|network| fits(network)).map(|network| {
        let icmp = if network.address().is_ipv4() { ICMP } else { ICMPV6 };
        range(*network, (icmp, icmp), EVERY_PORT)
    });
    ported.chain(whole).collect()
}

fn by_family(v4: &'static str, v6: &'static str, address: IpAddr) -> &'static str {
    if address.is_ipv4() { v4 } else { v6 }
}

impl Element {
    fn plain(set: &'static str, key: Vec<u8>) -> Self {
        Self { set, key, last: None, ends: false, value: Value::Nothing }
    }

    /// From an answer of the kernel.
    pub(super) fn read(set: &'static str, bytes: &[u8]) -> Option<Self> {
        let attributes = Attributes::of(bytes);
        let flags = attribute(&attributes, element::FLAGS).and_then(be32).unwrap_or(0);
        let value = attribute(&attributes, element::EXPRESSION)
            .map_or(Value::Nothing, |expression| read_limit(expression).unwrap_or(Value::Foreign));
        Some(Self {
            set,
            key: read_value(attribute(&attributes, element::KEY)?)?,
            last: attribute(&attributes, element::KEY_END).and_then(read_value),
            ends: flags & element::F_INTERVAL_END != 0,
            value,
        })
    }

    fn write(&self, whole: bool, to: &mut Request) {
        to.nest(LIST_ELEM, |one| {
            write_value(element::KEY, &self.key, one);
            if let Some(last) = &self.last {
                write_value(element::KEY_END, last, one);
            }
            if self.ends {
                one.be32(element::FLAGS, element::F_INTERVAL_END);
            }
            match &self.value {
                _ if !whole => {}
                Value::Nothing | Value::Foreign => {}
                Value::Over(limit) => Expr::Over(*limit).write(element::EXPRESSION, one),
                Value::OverConnections(most) => {
                    Expr::OverConnections(*most).write(element::EXPRESSION, one);
                }
            }
        });
    }
}

/// The requests that add elements. Those of one set stand together.
pub(super) fn additions<'a>(table: &str, elements: impl Iterator<Item = &'a Element>) -> Vec<Request> {
    requests(table, NEWSETELEM, libc::NLM_F_CREATE, elements)
}

/// The requests that take elements away.
pub(super) fn removals<'a>(table: &str, elements: impl Iterator<Item = &'a Element>) -> Vec<Request> {
    requests(table, DELSETELEM, 0, elements)
}

fn requests<'a>(
    table: &str,
    kind: u16,
    flags: libc::c_int,
    elements: impl Iterator<Item = &'a Element>,
) -> Vec<Request> {
    let mut elements: Vec<&Element> = elements.collect();
    elements.sort_by_key(|element| element.set);
    let mut requests = Vec::new();
    let mut rest = elements.into_iter().peekable();
    while let Some(set) = rest.peek().map(|element| element.set) {
        let mut request = Request::new(kind, flags, &HEADER);
        request.text(element::LIST_TABLE, table).text(element::LIST_SET, set);
        let mut length = 0;
        request.nest(element::LIST_ELEMENTS, |list| {
            let start = list.len();
            while let Some(one) = rest.next_if(|next| next.set == set && length < MOST_BYTES) {
                one.write(kind == NEWSETELEM, list);
                length = list.len() - start;
            }
        });
        requests.push(request);
    }
    requests
}

pub(super) fn be32(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

fn be64(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

fn read_value(bytes: &[u8]) -> Option<Vec<u8>> {
    attribute(&Attributes::of(bytes), data::VALUE).map(<[u8]>::to_vec)
}

fn read_limit(bytes: &[u8]) -> Option<Value> {
    let expression = Attributes::of(bytes);
    let inside = Attributes::of(attribute(&expression, rule::EXPRESSION_DATA)?);
    match attribute(&expression, rule::EXPRESSION_NAME).and_then(text)? {
        "connlimit" => attribute(&inside, 1).and_then(be32).map(Value::OverConnections),
        "limit" => {
            let per_second = attribute(&inside, Limit::RATE).and_then(be64)?;
            let burst = attribute(&inside, Limit::BURST).and_then(be32)?;
            Some(Value::Over(Limit { per_second, burst }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if the ranges of a set hold an address, as the kernel looks it up: by the last boundary
    /// before it.
    fn holds(elements: &[Element], set: &str, address: IpAddr) -> bool {
        let key = Key::default().with_address(address).0;
        let before = elements.iter().filter(|element| element.set == set && element.key <= key);
        before.max_by_key(|element| element.key.clone()).is_some_and(|element| !element.ends)
    }

    #[test]
    fn every_closed_range_is_in_the_sets_to_its_last_address() {
        let networks = ClosedRange::ALL.iter().map(|range| range.network);
        let elements = spans(["closed4", "closed6"], networks);
        for range in ClosedRange::ALL {
            let (first, last) = (range.network.address(), last(range.network));
            let set = by_family("closed4", "closed6", first);
            assert!(holds(&elements, set, first) && holds(&elements, set, last), "{}", range.network);
        }
        let probes = ["1.0.0.0", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.0.2.1"];
        for text in probes.into_iter().chain(["223.255.255.255", "2001:1::", "2001:db8::1", "2606:4700::1"]) {
            let address: IpAddr = text.parse().unwrap();
            let is_closed = ClosedRange::ALL.iter().any(|range| range.network.contains(address));
            assert_eq!(
                holds(&elements, by_family("closed4", "closed6", address), address),
                is_closed,
                "{text}"
            );
        }
    }

    #[test]
    fn ranges_that_touch_are_one() {
        let networks = ["192.0.2.0/25", "192.0.2.128/25", "192.0.2.7/32", "240.0.0.0/4", "224.0.0.0/4"];
        let elements = spans(["closed4", "closed6"], networks.into_iter().map(|text| text.parse().unwrap()));
        let keys: Vec<_> = elements.iter().map(|element| (element.key.as_slice(), element.ends)).collect();
        // The last range has no end: nothing comes after it.
        let expected: [(&[u8], bool); 3] =
            [(&[192, 0, 2, 0], false), (&[192, 0, 3, 0], true), (&[224, 0, 0, 0], false)];
        assert_eq!(keys, expected);
    }

    #[test]
    fn long_lists_take_several_messages() {
        let element = |number: u32| Element::plain("direct", link_key(&number.to_string()));
        let elements: Vec<Element> = (0..5000).map(element).collect();
        let requests = additions("warren-0", elements.iter());
        assert!(requests.len() > 2 && requests.iter().all(|request| request.len() < 60_000));
    }
}

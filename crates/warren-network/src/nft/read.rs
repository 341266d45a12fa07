//! Reads the kernel's tables, and the rules and elements of one.

use super::element::{Element, be32};
use super::set::{SETS, Set};
use super::wire::{
    GEN_ID, GETCHAIN, GETGEN, GETRULE, GETSET, GETSETELEM, GETTABLE, HEADER, chain, element, rule, set, table,
};
use crate::netlink::{Attributes, Message, NetlinkError, Request, Socket, attribute, text};

/// The number of the last change to any table of this namespace.
pub(super) fn generation(socket: &mut Socket) -> Result<u32, NetlinkError> {
    socket.ask(Request::new(GETGEN, 0, &HEADER), |message| {
        attribute(&message.attributes(HEADER.len()), GEN_ID).and_then(be32).unwrap_or(0)
    })
}

/// The names and comments of all tables of the kind that ours are of.
pub(super) fn tables(socket: &mut Socket) -> Result<Vec<(String, Option<String>)>, NetlinkError> {
    let read = |message: Message<'_>| {
        let attributes = message.attributes(HEADER.len());
        let name = attribute(&attributes, table::NAME).and_then(text)?;
        Some((name.to_owned(), attribute(&attributes, table::USERDATA).and_then(comment)))
    };
    socket.list(|| Request::new(GETTABLE, 0, &HEADER), read)
}

/// The user data are a list of kind, length and value, each in a byte.
fn comment(mut userdata: &[u8]) -> Option<String> {
    while let [kind, length, rest @ ..] = userdata {
        let value = rest.get(..usize::from(*length))?;
        if *kind == table::COMMENT {
            return text(value).map(str::to_owned);
        }
        userdata = &rest[usize::from(*length)..];
    }
    None
}

/// See [`comment`]. A text too long for it is cut.
pub(super) fn userdata(comment: &str) -> Vec<u8> {
    const MOST: usize = 128;
    let mut end = comment.len().min(MOST - 1);
    while !comment.is_char_boundary(end) {
        end -= 1;
    }
    let length = u8::try_from(end + 1).unwrap_or(u8::MAX);
    let mut bytes = vec![table::COMMENT, length];
    bytes.extend_from_slice(&comment.as_bytes()[..end]);
    bytes.push(0);
    bytes
}

/// The table's chains, sets and rules as the kernel has them, for comparison with another time.
pub(super) fn fingerprint(socket: &mut Socket, name: &str) -> Result<Vec<Vec<u8>>, NetlinkError> {
    let mut all = chains(socket, name)?;
    all.extend(socket.list(
        || named(GETSET, set::TABLE, name),
        |message| {
            let attributes = message.attributes(HEADER.len());
            Some(joined(&attributes, &[set::NAME, set::FLAGS, set::KEY_LEN]))
        },
    )?);
    all.extend(socket.list(
        || named(GETRULE, rule::TABLE, name),
        |message| {
            let attributes = message.attributes(HEADER.len());
            Some(joined(&attributes, &[rule::CHAIN, rule::EXPRESSIONS]))
        },
    )?);
    for set in SETS.iter().filter(|set| !set.of_links && set.name != "told") {
        let mut keys: Vec<Vec<u8>> =
            elements(socket, name, set)?.into_iter().map(|element| element.key).collect();
        keys.sort_unstable();
        all.push(keys.concat());
    }
    Ok(all)
}

/// The kernel lists the chains of all tables.
fn chains(socket: &mut Socket, name: &str) -> Result<Vec<Vec<u8>>, NetlinkError> {
    let read = |message: Message<'_>| {
        let attributes = message.attributes(HEADER.len());
        let table = attribute(&attributes, chain::TABLE).and_then(text)?;
        let said = [chain::NAME, chain::HOOK, chain::POLICY, chain::KIND];
        (table == name).then(|| joined(&attributes, &said))
    };
    socket.list(|| Request::new(GETCHAIN, 0, &HEADER), read)
}

fn joined(attributes: &Attributes<'_>, kinds: &[u16]) -> Vec<u8> {
    let values = kinds.iter().map(|kind| attribute(attributes, *kind).unwrap_or_default());
    values.collect::<Vec<_>>().join(&0)
}

/// All elements that belong to links.
pub(super) fn link_elements(socket: &mut Socket, table: &str) -> Result<Vec<Element>, NetlinkError> {
    let mut all = Vec::new();
    for set in SETS.iter().filter(|set| set.of_links) {
        all.extend(elements(socket, table, set)?);
    }
    Ok(all)
}

fn elements(socket: &mut Socket, table: &str, of: &'static Set) -> Result<Vec<Element>, NetlinkError> {
    let request = || {
        let mut request = named(GETSETELEM, element::LIST_TABLE, table);
        request.text(element::LIST_SET, of.name);
        request
    };
    let read = |message: Message<'_>| {
        let list = attribute(&message.attributes(HEADER.len()), element::LIST_ELEMENTS)?;
        Some(Attributes::of(list).filter_map(|(_, one)| Element::read(of.name, one)).collect::<Vec<_>>())
    };
    Ok(socket.list(request, read)?.concat())
}

fn named(kind: u16, attribute: u16, table: &str) -> Request {
    let mut request = Request::new(kind, 0, &HEADER);
    request.text(attribute, table);
    request
}

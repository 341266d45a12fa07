//! One block's table: claimed, filled, changed link by link, watched and taken away.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::Mutex;
use rustix::io::Errno;

use super::element::{self, Element, additions, removals};
use super::set::SETS;
use super::wire::{DELSETELEM, DELTABLE, HEADER, NEWTABLE, element as wire_element, table};
use super::{ClaimError, LinkRules, Skeleton, read, ruleset};
use crate::netlink::{NetlinkError, Protocol, Request, Socket, text};
use crate::place::BLOCKS;

/// The beginning of every comment of our tables. The number changes with the layout: elements of
/// another layout mean something else, and such a table is made anew.
const SIGNATURE: &str = "warren 1 ";
const NAME: &str = "warren-";

/// A table's protection against changes by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Only this process, where the kernel knows such tables (Linux 6.9).
    Ours,
    /// Everybody with the right to change any table, as on older kernels.
    #[cfg(test)]
    Shared,
}

/// A table that this process has claimed.
#[derive(Debug)]
pub(crate) struct Table {
    block: u8,
    name: String,
    owner: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    socket: Socket,
    /// The flags the table was made with.
    flags: u32,
    /// It was made by a version with another layout.
    is_foreign: bool,
    skeleton: Option<Skeleton>,
    /// The elements of each link that the kernel has.
    links: BTreeMap<String, Vec<Element>>,
    /// Of the chains and rules as they were after they were installed.
    fingerprint: u64,
    /// The change after which the table was as it should be.
    sound_at: Option<u32>,
}

/// By this, rules that nobody had for a while are known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Imprint {
    /// Of what the kernel was told, and of what it says of that.
    pub(crate) given: u64,
    pub(crate) kept: u64,
    /// The last change to any table.
    pub(crate) generation: u32,
}

/// The blocks in use on this machine, each with who says it has it. Anybody may ask.
pub(crate) fn tables() -> Result<Vec<(u8, String)>, NetlinkError> {
    let mut socket = Socket::open(Protocol::Netfilter)?;
    let ours = |(name, comment): (String, Option<String>)| {
        let block: u8 = name.strip_prefix(NAME)?.parse().ok().filter(|block| *block < BLOCKS)?;
        (name_of(block) == name).then(|| (block, owner(comment.as_deref())))
    };
    Ok(read::tables(&mut socket)?.into_iter().filter_map(ours).collect())
}

fn exists(socket: &mut Socket, name: &str) -> Result<bool, ClaimError> {
    let tables = read::tables(socket).map_err(ClaimError::Kernel)?;
    Ok(tables.iter().any(|(found, _)| found == name))
}

fn name_of(block: u8) -> String {
    format!("{NAME}{block}")
}

/// The owner that a table's comment names, in any layout.
fn owner(comment: Option<&str>) -> String {
    let mut words = comment.unwrap_or_default().splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some("warren"), Some(_), Some(owner)) => owner.to_owned(),
        _ => String::new(),
    }
}

impl Table {
    /// Makes the block's table, empty. Its maker has the block.
    pub(crate) fn claim(block: u8, owner: &str, hold: Hold) -> Result<Self, ClaimError> {
        let mut socket = Socket::open(Protocol::Netfilter).map_err(ClaimError::Kernel)?;
        let name = name_of(block);
        let mut flags = hold.flags();
        loop {
            let request = new_table(&name, owner, flags, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
            match socket.batch(vec![request]) {
                Ok(()) => return Ok(Self::new(block, owner.to_owned(), socket, flags)),
                Err(error) if error.errno == Errno::EXIST => return Err(ClaimError::Taken),
                // It belongs to a process that lives.
                Err(error) if error.errno == Errno::PERM && exists(&mut socket, &name)? => {
                    return Err(ClaimError::Taken);
                }
                // An older kernel: the table is everybody's.
                Err(error) if flags != 0 && error.errno != Errno::PERM => flags = 0,
                Err(error) => return Err(ClaimError::Kernel(error)),
            }
        }
    }

    /// Takes over a table whose process is gone, with all that is in it.
    pub(crate) fn open(block: u8, hold: Hold) -> Result<Self, ClaimError> {
        let mut socket = Socket::open(Protocol::Netfilter).map_err(ClaimError::Kernel)?;
        let name = name_of(block);
        let found = read::tables(&mut socket).map_err(ClaimError::Kernel)?;
        let Some((_, comment)) = found.into_iter().find(|(found, _)| *found == name) else {
            return Err(ClaimError::Absent);
        };
        let owner = owner(comment.as_deref());
        let mut flags = hold.flags();
        if flags != 0 {
            match socket.batch(vec![new_table(&name, &owner, flags, 0)]) {
                Ok(()) => {}
                // Its process lives.
                Err(error) if error.errno == Errno::PERM => return Err(ClaimError::Taken),
                // It was made to be shared, or the kernel knows nothing else.
                Err(_) => flags = 0,
            }
        }
        let table = Self::new(block, owner, socket, flags);
        let is_ours = comment.is_some_and(|comment| comment.starts_with(SIGNATURE));
        table.state.lock().load(&table.name, is_ours).map_err(ClaimError::Kernel)?;
        Ok(table)
    }

    /// Takes over a table that a process has left behind with [`Table::imprint`]. `None` if it is
    /// not as it was then, or not as it would be made now.
    pub(crate) fn resume(
        block: u8,
        owner: &str,
        skeleton: &Skeleton,
        left: Imprint,
    ) -> Result<Option<Self>, NetlinkError> {
        let flags = Hold::Ours.flags();
        let table = Self::new(block, owner.to_owned(), Socket::open(Protocol::Netfilter)?, flags);
        if table.given(skeleton) != left.given {
            return Ok(None);
        }
        let mut state = table.state.lock();
        let before = read::generation(&mut state.socket)?;
        // What has not changed is named as it was.
        if before != left.generation && !table.is_named_so(&mut state.socket)? {
            return Ok(None);
        }
        // Fails if it is gone, or if somebody has it.
        state.socket.batch(vec![new_table(&table.name, owner, flags, 0)])?;
        let now = read::generation(&mut state.socket)?;
        state.skeleton = Some(skeleton.clone());
        state.fingerprint = left.kept;
        // Only that one change was made since: all is as it was. Else there is more to read.
        let is_same = before == left.generation && now == before.wrapping_add(1);
        if !is_same && !state.compare(&table.name)? {
            return Ok(None);
        }
        state.sound_at = Some(now);
        drop(state);
        Ok(Some(table))
    }

    fn is_named_so(&self, socket: &mut Socket) -> Result<bool, NetlinkError> {
        let comment = format!("{SIGNATURE}{}", self.owner);
        let tables = read::tables(socket)?;
        Ok(tables.iter().any(|(name, said)| *name == self.name && said.as_ref() == Some(&comment)))
    }

    /// By which the rules are known again if nobody has the table from now on. `None` if they are
    /// not in order, or if there is a link in them.
    pub(crate) fn imprint(&self) -> Option<Imprint> {
        let state = self.state.lock();
        let skeleton = state.skeleton.as_ref().filter(|_| state.links.is_empty() && state.flags != 0)?;
        let given = self.given(skeleton);
        state.sound_at.map(|generation| Imprint { given, kept: state.fingerprint, generation })
    }

    /// Of all that the kernel is told to make it.
    fn given(&self, skeleton: &Skeleton) -> u64 {
        let mut hasher = DefaultHasher::new();
        for request in self.sets_and_chains().into_iter().chain(self.filling(skeleton)) {
            request.as_bytes().hash(&mut hasher);
        }
        hasher.finish()
    }

    fn new(block: u8, owner: String, socket: Socket, flags: u32) -> Self {
        let state = State {
            socket,
            flags,
            is_foreign: false,
            skeleton: None,
            links: BTreeMap::new(),
            fingerprint: 0,
            sound_at: None,
        };
        Self { block, name: name_of(block), owner, state: Mutex::new(state) }
    }

    pub(crate) fn block(&self) -> u8 {
        self.block
    }

    #[cfg(test)]
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    /// True if nobody else can change it.
    pub(crate) fn is_held(&self) -> bool {
        self.state.lock().flags != 0
    }

    /// Puts down the chains and rules in place of those there are. What links have stays.
    pub(crate) fn install(&self, skeleton: &Skeleton) -> Result<(), NetlinkError> {
        let mut state = self.state.lock();
        state.skeleton = Some(skeleton.clone());
        if state.is_foreign {
            return self.make_anew(&mut state);
        }
        let mut requests = self.sets_and_chains();
        requests.extend(ruleset::emptied(&self.name));
        requests.extend(SETS.iter().filter(|set| !set.of_links).map(|set| self.emptied(set.name)));
        requests.extend(self.filling(skeleton));
        state.socket.batch(requests)?;
        self.remember(&mut state)
    }

    /// Adds a link, or replaces all that one has. From one packet to the next.
    pub(crate) fn put(&self, link: &LinkRules) -> Result<(), NetlinkError> {
        let mut state = self.state.lock();
        let (old, new) = (state.links.get(&link.link).map_or(&[][..], Vec::as_slice), element::of_link(link));
        let mut requests = removals(&self.name, old.iter().filter(|one| !new.contains(one)));
        requests.extend(additions(&self.name, new.iter().filter(|one| !old.contains(one))));
        state.commit(requests)?;
        state.links.insert(link.link.clone(), new);
        Ok(())
    }

    /// Takes away all that a link has: nothing passes it any more. Right for one that has nothing.
    pub(crate) fn remove(&self, link: &str) -> Result<(), NetlinkError> {
        let mut state = self.state.lock();
        let Some(old) = state.links.get(link) else { return Ok(()) };
        let requests = removals(&self.name, old.iter());
        state.commit(requests)?;
        state.links.remove(link);
        Ok(())
    }

    /// The links that have elements.
    pub(crate) fn links(&self) -> Vec<String> {
        self.state.lock().links.keys().cloned().collect()
    }

    /// True if the kernel still has what it was given. Cheap as long as nobody has changed any
    /// table.
    pub(crate) fn is_intact(&self) -> Result<bool, NetlinkError> {
        let state = &mut *self.state.lock();
        let now = read::generation(&mut state.socket)?;
        if state.sound_at == Some(now) {
            return Ok(true);
        }
        let is_sound = match state.compare(&self.name) {
            Err(error) if error.is_absent() => false,
            compared => compared?,
        };
        state.sound_at = is_sound.then_some(now);
        Ok(is_sound)
    }

    /// Makes the table anew with all that the kernel was told, whatever is there now. Until then,
    /// nothing is forwarded.
    pub(crate) fn restore(&self) -> Result<(), NetlinkError> {
        self.make_anew(&mut self.state.lock())
    }

    /// Takes the table away, and with it all that links have.
    pub(crate) fn delete(&self) -> Result<(), NetlinkError> {
        let mut state = self.state.lock();
        match state.socket.batch(vec![self.deletion()]) {
            Err(error) if error.is_absent() => Ok(()),
            done => done,
        }
    }

    fn make_anew(&self, state: &mut State) -> Result<(), NetlinkError> {
        let mut requests = Vec::new();
        if read::tables(&mut state.socket)?.iter().any(|(found, _)| *found == self.name) {
            requests.push(self.deletion());
        }
        requests.push(new_table(&self.name, &self.owner, state.flags, libc::NLM_F_CREATE));
        requests.extend(self.sets_and_chains());
        if let Some(skeleton) = &state.skeleton {
            requests.extend(self.filling(skeleton));
        }
        requests.extend(additions(&self.name, state.links.values().flatten()));
        state.socket.batch(requests)?;
        state.is_foreign = false;
        self.remember(state)
    }

    fn sets_and_chains(&self) -> Vec<Request> {
        let sets = SETS.iter().zip(1..).map(|(set, id)| set.request(&self.name, id));
        sets.chain(ruleset::chains(&self.name)).collect()
    }

    fn filling(&self, skeleton: &Skeleton) -> Vec<Request> {
        let fixed = element::of_skeleton(skeleton);
        let mut requests = additions(&self.name, fixed.iter());
        requests.extend(ruleset::rules(&self.name, self.block, skeleton));
        requests
    }

    fn emptied(&self, set: &str) -> Request {
        let mut request = Request::new(DELSETELEM, 0, &HEADER);
        request.text(wire_element::LIST_TABLE, &self.name).text(wire_element::LIST_SET, set);
        request
    }

    fn deletion(&self) -> Request {
        let mut request = Request::new(DELTABLE, 0, &HEADER);
        request.text(table::NAME, &self.name);
        request
    }

    fn remember(&self, state: &mut State) -> Result<(), NetlinkError> {
        let now = read::generation(&mut state.socket)?;
        state.fingerprint = fingerprint(&mut state.socket, &self.name)?;
        state.sound_at = Some(now);
        Ok(())
    }
}

impl State {
    /// One transaction. Whoever else has changed any table meanwhile makes the next check a
    /// thorough one.
    fn commit(&mut self, requests: Vec<Request>) -> Result<(), NetlinkError> {
        if requests.is_empty() {
            return Ok(());
        }
        self.socket.batch(requests)?;
        self.sound_at = self.sound_at.map(|before| before.wrapping_add(1));
        Ok(())
    }

    /// Reads what the links of another process have.
    fn load(&mut self, name: &str, is_ours: bool) -> Result<(), NetlinkError> {
        self.is_foreign = !is_ours;
        if !is_ours {
            return Ok(());
        }
        let elements = match read::link_elements(&mut self.socket, name) {
            // It was claimed and never filled.
            Err(error) if error.is_absent() => return Ok(()),
            elements => elements?,
        };
        let by_address: BTreeMap<Vec<u8>, String> = elements.iter().filter_map(pinned).collect();
        for element in elements {
            if let Some(link) = link_of(&element, &by_address) {
                self.links.entry(link).or_default().push(element);
            }
        }
        Ok(())
    }

    fn compare(&mut self, name: &str) -> Result<bool, NetlinkError> {
        if fingerprint(&mut self.socket, name)? != self.fingerprint {
            return Ok(false);
        }
        let place = |element: &Element| (element.set, element.key.clone(), element.last.clone());
        let mut found: Vec<_> = read::link_elements(&mut self.socket, name)?.iter().map(place).collect();
        let mut told: Vec<_> = self.links.values().flatten().map(place).collect();
        found.sort_unstable();
        told.sort_unstable();
        Ok(found == told)
    }
}

fn fingerprint(socket: &mut Socket, name: &str) -> Result<u64, NetlinkError> {
    let mut hasher = DefaultHasher::new();
    read::fingerprint(socket, name)?.hash(&mut hasher);
    Ok(hasher.finish())
}

/// The address that an element pins, and the link that it is pinned to.
fn pinned(element: &Element) -> Option<(Vec<u8>, String)> {
    let is_pin = matches!(element.set, "pinned4" | "pinned6");
    let (link, address) = (element.key.get(..16)?, element.key.get(24..)?);
    is_pin.then_some((address.to_vec(), text(link)?.to_owned()))
}

/// Elements begin with a link's name, or with an address of its sandbox.
fn link_of(element: &Element, by_address: &BTreeMap<Vec<u8>, String>) -> Option<String> {
    let bytes = match element.set {
        "denied4" | "opened4" => 4,
        "denied6" | "opened6" => 16,
        _ => return text(element.key.get(..16)?).map(str::to_owned),
    };
    by_address.get(element.key.get(..bytes)?).cloned()
}

impl Hold {
    fn flags(self) -> u32 {
        match self {
            Self::Ours => table::F_OWNER | table::F_PERSIST,
            #[cfg(test)]
            Self::Shared => 0,
        }
    }
}

fn new_table(name: &str, owner: &str, flags: u32, how: libc::c_int) -> Request {
    let mut request = Request::new(NEWTABLE, how, &HEADER);
    request.text(table::NAME, name).be32(table::FLAGS, flags);
    request.bytes(table::USERDATA, &read::userdata(&format!("{SIGNATURE}{owner}")));
    request
}

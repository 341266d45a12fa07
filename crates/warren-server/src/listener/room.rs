//! Room for connections: counts them, and decides which one is closed when there is no room for
//! another.
//!
//! Nobody waits for anybody here: every connection gets in, and if that is one too many, a
//! connection that is of less use is closed for it. A connection is a stranger's until a request on
//! it shows who asks ([`OwnerNotice::of`]). Strangers have a part of the room for all of them and a
//! smaller one for each address, and within those the newest is served rather than the oldest:
//! silent ones go first, then those between requests, then the rest. A known owner's is safe while
//! a request is under way, as long as the owner has not more than half of the room; what an owner
//! has beyond that counts as strangers'. A little is left to strangers in any case, for everybody
//! begins as one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;
use warren_core::Owner;
use warren_face::arrival::{OwnerNotice, Peer};

use super::usage::{Rank, Usage};
use crate::config::Http;

/// See the module's documentation.
pub(super) struct Room {
    limits: Limits,
    book: Mutex<Book>,
}

struct Limits {
    all: usize,
    strangers: usize,
    strangers_of_address: usize,
    known: usize,
    known_of_owner: usize,
}

impl Limits {
    fn of(http: &Http) -> Self {
        let size = |value| usize::try_from(value).unwrap_or(usize::MAX);
        let all = size(http.max_connections);
        Self {
            all,
            strangers: all - all / 4,
            strangers_of_address: size(http.max_connections_per_address),
            known: all - (all / 8).max(1),
            known_of_owner: (all / 2).max(1),
        }
    }
}

#[derive(Default)]
struct Book {
    next: u64,
    guests: HashMap<u64, Guest>,
    strangers: HashMap<Peer, usize>,
    known: HashMap<Owner, usize>,
    strangers_in_all: usize,
}

struct Guest {
    peer: Peer,
    owner: Option<Owner>,
    usage: Usage,
    cut: CancellationToken,
}

/// The right to be here. Dropping it is leaving.
pub(super) struct Ticket {
    room: Arc<Room>,
    number: u64,
    cut: CancellationToken,
}

impl Room {
    pub(super) fn new(http: &Http) -> Arc<Self> {
        Arc::new(Self { limits: Limits::of(http), book: Mutex::default() })
    }

    /// Lets somebody in, at once.
    pub(super) fn enter(self: &Arc<Self>, peer: Peer, usage: Usage) -> Ticket {
        let mut book = self.book();
        if let Some(number) = book.in_the_way(peer, &self.limits)
            && let Some(guest) = book.leave(number)
        {
            guest.cut.cancel();
        }
        let number = book.next;
        book.next += 1;
        let cut = CancellationToken::new();
        book.guests.insert(number, Guest { peer, owner: None, usage, cut: cut.clone() });
        *book.strangers.entry(peer).or_default() += 1;
        book.strangers_in_all += 1;
        Ticket { room: Arc::clone(self), number, cut }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock()
    }
}

impl Book {
    /// The connection to be closed before this peer gets another one.
    fn in_the_way(&self, peer: Peer, limits: &Limits) -> Option<u64> {
        if self.strangers.get(&peer).is_some_and(|count| *count >= limits.strangers_of_address) {
            return self.least(|guest| guest.owner.is_none() && guest.peer == peer);
        }
        if self.strangers_in_all >= limits.strangers {
            return self.least_stranger();
        }
        if self.guests.len() < limits.all {
            return None;
        }
        let rests = |guest: &Guest| guest.usage.rank().0 != Rank::Busy;
        let stranger = self.least_stranger();
        let resting = stranger.filter(|number| self.guests.get(number).is_some_and(rests));
        resting.or_else(|| self.least(|guest| guest.owner.is_some() && rests(guest))).or(stranger)
    }

    /// Of the address that has the most of them.
    fn least_stranger(&self) -> Option<u64> {
        let (most, _) = self.strangers.iter().max_by_key(|(_, count)| **count)?;
        self.least(|guest| guest.owner.is_none() && guest.peer == *most)
    }

    fn least(&self, wanted: impl Fn(&Guest) -> bool) -> Option<u64> {
        let candidates = self.guests.iter().filter(|(_, guest)| wanted(guest));
        candidates.min_by_key(|(number, guest)| (guest.usage.rank(), **number)).map(|(number, _)| *number)
    }

    fn leave(&mut self, number: u64) -> Option<Guest> {
        let guest = self.guests.remove(&number)?;
        match &guest.owner {
            Some(owner) => less(&mut self.known, owner),
            None => {
                less(&mut self.strangers, &guest.peer);
                self.strangers_in_all -= 1;
            }
        }
        Some(guest)
    }

    /// Remembers whose connection it is, if there is room for another of this owner.
    fn meet(&mut self, number: u64, owner: &Owner, limits: &Limits) {
        let known = self.guests.len() - self.strangers_in_all;
        let of_owner = self.known.get(owner).copied().unwrap_or_default();
        let Some(guest) = self.guests.get_mut(&number) else { return };
        if guest.owner.is_some() || known >= limits.known || of_owner >= limits.known_of_owner {
            return;
        }
        guest.owner = Some(owner.clone());
        less(&mut self.strangers, &guest.peer);
        self.strangers_in_all -= 1;
        *self.known.entry(owner.clone()).or_default() += 1;
    }
}

fn less<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Ticket {
    /// Cancelled when the connection must go.
    pub(super) fn cut(&self) -> CancellationToken {
        self.cut.clone()
    }

    pub(super) fn acquaintance(&self) -> OwnerNotice {
        let (room, number) = (Arc::clone(&self.room), self.number);
        OwnerNotice::new(move |owner| room.book().meet(number, owner, &room.limits))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.room.book().leave(self.number);
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;

//! How many sandboxes may live at once, in all and of one owner. Exact, however many are asked for
//! at the same time.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use warren_core::Owner;

use crate::EngineError;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Seats {
    taken: Arc<Mutex<Taken>>,
    most: usize,
    /// The share of one owner. Absent: everything, until there is another owner.
    share: Option<usize>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    owners: HashMap<Owner, usize>,
    /// Owners that may come any time.
    expected: usize,
}

/// The right of one sandbox to live; given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    taken: Arc<Mutex<Taken>>,
    owner: Owner,
}

impl Seats {
    pub(crate) fn new(most: usize, share: Option<usize>) -> Self {
        Self { taken: Arc::default(), most, share }
    }

    /// How many owners there are, whether or not they have a sandbox.
    pub(crate) fn expect_owners(&self, count: usize) {
        self.taken.lock().expected = count;
    }

    pub(crate) fn take(&self, owner: &Owner) -> Result<Seat, EngineError> {
        let mut taken = self.taken.lock();
        if taken.all >= self.most {
            return Err(EngineError::MaxSandboxes { alive: taken.all, most: self.most });
        }
        let (alive, most) = (taken.of(owner), self.share(owner, &taken));
        if alive >= most {
            return Err(EngineError::MaxSandboxesOfOwner { alive, most });
        }
        Ok(self.seat(&mut taken, owner))
    }

    /// For a sandbox that lives already: it is counted, and not turned away.
    pub(crate) fn take_anyway(&self, owner: &Owner) -> Seat {
        self.seat(&mut self.taken.lock(), owner)
    }

    pub(crate) fn count(&self) -> usize {
        self.taken.lock().all
    }

    fn seat(&self, taken: &mut Taken, owner: &Owner) -> Seat {
        taken.all += 1;
        *taken.owners.entry(owner.clone()).or_default() += 1;
        Seat { taken: Arc::clone(&self.taken), owner: owner.clone() }
    }

    fn share(&self, owner: &Owner, taken: &Taken) -> usize {
        let alone = taken.expected <= 1 && taken.owners.keys().all(|other| other == owner);
        match self.share {
            Some(share) => share,
            None if alone => self.most,
            None => (self.most - self.most / 4).min(self.most.saturating_sub(1)).max(1),
        }
    }
}

impl Taken {
    fn of(&self, owner: &Owner) -> usize {
        self.owners.get(owner).copied().unwrap_or_default()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.all -= 1;
        let left = taken.of(&self.owner).saturating_sub(1);
        if left == 0 {
            taken.owners.remove(&self.owner);
        } else {
            taken.owners.insert(self.owner.clone(), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        name.parse().unwrap()
    }

    #[test]
    fn no_more_seats_are_given_than_there_are() {
        let seats = Seats::new(64, None);
        let one = owner("one");
        let taken: Vec<Seat> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..32).filter_map(|_| seats.take(&one).ok()).collect()))
                .collect();
            takers.into_iter().flat_map(|taker| -> Vec<Seat> { taker.join().unwrap() }).collect()
        });
        assert_eq!(taken.len(), 64, "an owner who is alone has all of them");
        assert!(matches!(seats.take(&one), Err(EngineError::MaxSandboxes { alive: 64, most: 64 })));
        drop(taken);
        assert_eq!(seats.count(), 0);
        assert!(seats.taken.lock().owners.is_empty());
    }

    #[test]
    fn a_sandbox_that_lives_is_counted_even_over_the_limit() {
        let seats = Seats::new(1, None);
        let both = (seats.take_anyway(&owner("one")), seats.take_anyway(&owner("one")));
        assert_eq!(seats.count(), 2);
        assert!(seats.take(&owner("one")).is_err());
        drop(both);
        assert!(seats.take(&owner("one")).is_ok());
    }

    #[test]
    fn an_owner_leaves_room_for_another() {
        let seats = Seats::new(8, None);
        seats.expect_owners(2);
        let all: Vec<Seat> = (0..6).map(|_| seats.take(&owner("greedy")).unwrap()).collect();
        let refused = seats.take(&owner("greedy"));
        assert!(
            matches!(refused, Err(EngineError::MaxSandboxesOfOwner { alive: 6, most: 6 })),
            "{refused:?}"
        );
        let others = (seats.take(&owner("other")).unwrap(), seats.take(&owner("other")).unwrap());
        assert!(matches!(seats.take(&owner("other")), Err(EngineError::MaxSandboxes { .. })));
        drop((all, others));
        let said = Seats::new(8, Some(3));
        let _three: Vec<Seat> = (0..3).map(|_| said.take(&owner("one")).unwrap()).collect();
        assert!(matches!(said.take(&owner("one")), Err(EngineError::MaxSandboxesOfOwner { most: 3, .. })));
    }
}

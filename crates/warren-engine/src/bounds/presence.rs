//! Who is at work. What one owner leaves unused is lent to another only while nobody else is there
//! to want it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use warren_core::Owner;

/// Whoever asked for something within this time is there.
const LATELY: Duration = Duration::from_secs(1);

/// When each owner last asked for something.
#[derive(Debug, Default)]
pub(crate) struct Presence(Mutex<HashMap<Owner, Instant>>);

impl Presence {
    pub(crate) fn note(&self, owner: &Owner) {
        let now = Instant::now();
        let mut seen = self.seen();
        match seen.get_mut(owner) {
            Some(last) => *last = now,
            None => drop(seen.insert(owner.clone(), now)),
        }
    }

    /// Whether nobody but this owner is at work.
    pub(crate) fn is_alone(&self, owner: &Owner) -> bool {
        let now = Instant::now();
        let mut seen = self.seen();
        seen.retain(|_, last| now.duration_since(*last) < LATELY);
        seen.keys().all(|other| other == owner)
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<Owner, Instant>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_alone_until_another_asks_and_again_when_that_one_is_gone() {
        let presence = Presence::default();
        let (one, two) = (Owner::first(), "two".parse::<Owner>().unwrap());
        presence.note(&one);
        assert!(presence.is_alone(&one) && !presence.is_alone(&two));
        presence.note(&two);
        assert!(!presence.is_alone(&one) && !presence.is_alone(&two));
        let gone = Instant::now().checked_sub(LATELY).unwrap();
        presence.seen().insert(two.clone(), gone);
        assert!(presence.is_alone(&one));
        assert_eq!(presence.seen().len(), 1, "who is gone is forgotten");
    }
}

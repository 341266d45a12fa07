//! Which owners are at work. One owner may use the share of the others only while none of them is.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use warren_core::Owner;

/// An owner counts as being at work for this long after a request.
const LATELY: Duration = Duration::from_secs(1);

/// When each owner last asked for something.
#[derive(Debug, Default)]
pub(crate) struct Presence(Mutex<HashMap<Owner, Instant>>);

impl Presence {
    pub(crate) fn note(&self, owner: &Owner) {
        let now = Instant::now();
        let mut seen = self.0.lock();
        match seen.get_mut(owner) {
            Some(last) => *last = now,
            None => drop(seen.insert(owner.clone(), now)),
        }
    }

    /// True if no other owner is at work.
    pub(crate) fn is_alone(&self, owner: &Owner) -> bool {
        let now = Instant::now();
        let mut seen = self.0.lock();
        seen.retain(|_, last| now.duration_since(*last) < LATELY);
        seen.keys().all(|other| other == owner)
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
        presence.0.lock().insert(two.clone(), gone);
        assert!(presence.is_alone(&one));
        assert_eq!(presence.0.lock().len(), 1, "who is gone is forgotten");
    }
}

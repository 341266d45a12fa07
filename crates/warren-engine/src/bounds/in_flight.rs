//! Counts the calls under way in each sandbox and of each owner, so that none takes more than its
//! share of the server: a call is a task, buffers and a connection.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use warren_core::{Owner, SandboxId};

use crate::EngineError;

/// The calls under way, and their limits.
#[derive(Debug)]
pub(crate) struct InFlight {
    per_sandbox: Most,
    per_owner: Most,
    counts: Mutex<Counts>,
}

/// A limit, and the setting that says it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) count: usize,
    pub(crate) setting: &'static str,
}

/// Sandboxes and owners without calls are left out.
#[derive(Debug, Default)]
struct Counts {
    sandboxes: HashMap<SandboxId, usize>,
    owners: HashMap<Owner, usize>,
}

/// One call's place, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    book: Arc<InFlight>,
    owner: Owner,
    sandbox: SandboxId,
}

impl InFlight {
    pub(crate) fn new(per_sandbox: Most, per_owner: Most) -> Arc<Self> {
        Arc::new(Self { per_sandbox, per_owner, counts: Mutex::default() })
    }

    /// A place for one more call; never waits for one.
    pub(crate) fn take(self: &Arc<Self>, owner: &Owner, sandbox: &SandboxId) -> Result<Place, EngineError> {
        let mut counts = self.counts.lock();
        let here = counts.sandboxes.get(sandbox).copied().unwrap_or(0);
        let all = counts.owners.get(owner).copied().unwrap_or(0);
        if here >= self.per_sandbox.count {
            return Err(self.per_sandbox.reached(sandbox.to_string()));
        }
        if all >= self.per_owner.count {
            return Err(self.per_owner.reached("this owner's sandboxes".to_owned()));
        }
        counts.sandboxes.insert(sandbox.clone(), here + 1);
        counts.owners.insert(owner.clone(), all + 1);
        drop(counts);
        Ok(Place { book: Arc::clone(self), owner: owner.clone(), sandbox: sandbox.clone() })
    }
}

impl Most {
    fn reached(self, whose: String) -> EngineError {
        EngineError::TooManyCalls { whose, most: self.count, setting: self.setting }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.book.counts.lock();
        count_down(&mut counts.sandboxes, &self.sandbox);
        count_down(&mut counts.owners, &self.owner);
    }
}

fn count_down<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(number: u8) -> SandboxId {
        SandboxId::from_random([number; 16])
    }

    fn setting(refused: Result<Place, EngineError>) -> &'static str {
        match refused {
            Err(EngineError::TooManyCalls { setting, .. }) => setting,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_sandbox_and_an_owner_have_so_many_and_give_them_back() {
        let book = InFlight::new(
            Most { count: 2, setting: "limits.calls_per_sandbox" },
            Most { count: 3, setting: "limits.calls_per_owner" },
        );
        let (one, two) = (Owner::first(), "two".parse::<Owner>().unwrap());
        let mut places = vec![book.take(&one, &sandbox(1)).unwrap(), book.take(&one, &sandbox(1)).unwrap()];
        assert_eq!(setting(book.take(&one, &sandbox(1))), "limits.calls_per_sandbox");
        places.push(book.take(&one, &sandbox(2)).unwrap());
        assert_eq!(setting(book.take(&one, &sandbox(2))), "limits.calls_per_owner");
        let other = book.take(&two, &sandbox(3)).unwrap();
        places.remove(0);
        places.push(book.take(&one, &sandbox(1)).unwrap());
        drop((places, other));
        let counts = book.counts.lock();
        assert!(counts.sandboxes.is_empty() && counts.owners.is_empty(), "{counts:?}");
    }
}

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use warren_core::Owner;

use crate::EngineError;

/// Smaller answers need no permission: the number of requests bounds them.
const FREE: usize = 2 << 20;
/// Bytes that the answers of one owner may take.
const EACH_OWNER: usize = 128 << 20;
/// Bytes that all answers may take.
const ALL: usize = 192 << 20;

/// Memory for program output that is answered in one piece.
#[derive(Debug, Default)]
pub(crate) struct KeptOutput(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    owners: HashMap<Owner, usize>,
}

/// Permission to keep so many bytes until this is dropped.
#[derive(Debug)]
pub struct Room {
    owner: Owner,
    bytes: usize,
    taken: Arc<Mutex<Taken>>,
}

impl KeptOutput {
    /// Room for an answer of at most so many bytes; none is needed for a small one.
    pub(crate) fn room(&self, owner: &Owner, bytes: usize) -> Result<Option<Room>, EngineError> {
        if bytes <= FREE {
            return Ok(None);
        }
        let mut taken = self.0.lock();
        let own = taken.owners.get(owner).copied().unwrap_or(0);
        if own + bytes > EACH_OWNER || taken.all + bytes > ALL {
            return Err(EngineError::MaxKeptOutput { each_owner_mib: EACH_OWNER >> 20 });
        }
        taken.all += bytes;
        taken.owners.insert(owner.clone(), own + bytes);
        Ok(Some(Room { owner: owner.clone(), bytes, taken: Arc::clone(&self.0) }))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.all -= self.bytes;
        if let Some(own) = taken.owners.get_mut(&self.owner) {
            *own -= self.bytes;
            if *own == 0 {
                taken.owners.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_owner_keeps_more_than_a_share_and_small_answers_are_free() {
        let kept_output = KeptOutput::default();
        let (mallory, alice) = ("mallory".parse().unwrap(), "alice".parse().unwrap());
        let held = kept_output.room(&mallory, EACH_OWNER).unwrap();
        assert!(held.is_some());
        let refused = kept_output.room(&mallory, FREE + 1);
        assert!(matches!(refused, Err(EngineError::MaxKeptOutput { each_owner_mib: 128 })));
        assert!(kept_output.room(&mallory, FREE).unwrap().is_none());
        let other = kept_output.room(&alice, ALL - EACH_OWNER).unwrap();
        assert!(other.is_some(), "another owner finds room");
        drop((held, other));
        assert!(kept_output.room(&mallory, EACH_OWNER).unwrap().is_some(), "and all of it is given back");
        assert_eq!(kept_output.0.lock().all, 0);
    }
}

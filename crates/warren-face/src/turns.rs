//! One at a time, for each of many things.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Mutex as Turn;

/// A lock for each thing that somebody works on. Those that nobody holds or waits for are
/// forgotten.
#[derive(Debug)]
pub(crate) struct Turns<K>(Mutex<HashMap<K, Weak<Turn<()>>>>);

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone> Turns<K> {
    pub(crate) fn of(&self, key: &K) -> Arc<Turn<()>> {
        let mut turns = self.0.lock();
        if let Some(turn) = turns.get(key).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(key.clone(), Arc::downgrade(&turn));
        turn
    }
}

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

type Turns<K> = Arc<Mutex<HashMap<K, Arc<Turn<()>>>>>;

/// Gives callers with the same key turns, in the order in which they came. A key takes room only
/// while somebody holds it or waits for it.
#[derive(Debug)]
pub(crate) struct Keyed<K: Eq + Hash> {
    turns: Turns<K>,
}

/// Holds the key until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<K: Eq + Hash> {
    // Dropped in this order: the turn is over before the claim looks whether anybody else wants it.
    _turn: OwnedMutexGuard<()>,
    _claim: Claim<K>,
}

/// An interest in a key, whether it is its turn yet or not.
#[derive(Debug)]
struct Claim<K: Eq + Hash> {
    key: K,
    turn: Option<Arc<Turn<()>>>,
    turns: Turns<K>,
}

impl<K: Eq + Hash> Default for Keyed<K> {
    fn default() -> Self {
        Self { turns: Arc::default() }
    }
}

impl<K: Eq + Hash + Clone> Keyed<K> {
    pub(crate) async fn hold(&self, key: K) -> Held<K> {
        let turn = Arc::clone(self.turns.lock().entry(key.clone()).or_default());
        let claim = Claim { key, turn: Some(Arc::clone(&turn)), turns: Arc::clone(&self.turns) };
        Held { _turn: turn.lock_owned().await, _claim: claim }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.turns.lock().len()
    }
}

impl<K: Eq + Hash> Drop for Claim<K> {
    fn drop(&mut self) {
        let mut turns = self.turns.lock();
        drop(self.turn.take());
        if turns.get(&self.key).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            turns.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn holders_of_one_key_never_overlap_and_nothing_is_left() {
        let keyed = Arc::new(Keyed::<u8>::default());
        let inside: Arc<[AtomicU32; 2]> = Arc::default();
        let tasks: Vec<_> = (0..200u8)
            .map(|number| {
                let (keyed, inside, key) = (Arc::clone(&keyed), Arc::clone(&inside), number % 2);
                tokio::spawn(async move {
                    let held = keyed.hold(key).await;
                    assert_eq!(inside[usize::from(key)].fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    inside[usize::from(key)].fetch_sub(1, Ordering::SeqCst);
                    drop(held);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(keyed.len(), 0);
    }

    #[tokio::test]
    async fn who_gives_up_waiting_leaves_nothing() {
        let keyed = Keyed::<u8>::default();
        let held = keyed.hold(1).await;
        assert!(tokio::time::timeout(Duration::from_millis(5), keyed.hold(1)).await.is_err());
        drop(held);
        assert_eq!(keyed.len(), 0);
        drop(keyed.hold(1).await);
    }
}

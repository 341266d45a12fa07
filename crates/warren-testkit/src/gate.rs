use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

pub(crate) type Bar = dyn Fn() -> bool + Send + Sync;
type Hook<C> = dyn Fn(C) + Send + Sync;

/// The hooks of a fake, for calls of kind `C`: one that is told each call, and one that says which
/// threads belong to a process that has ended.
pub(crate) struct Gate<C> {
    before: Mutex<Option<Arc<Hook<C>>>>,
    bar: Mutex<Option<Arc<Bar>>>,
}

impl<C> Gate<C> {
    pub(crate) fn before_each(&self, hook: impl Fn(C) + Send + Sync + 'static) {
        *self.before.lock() = Some(Arc::new(hook));
    }

    pub(crate) fn bar(&self, barred: Arc<Bar>) {
        *self.bar.lock() = Some(barred);
    }

    pub(crate) fn announce(&self, call: C) {
        let before = self.before.lock().clone();
        if let Some(before) = before {
            before(call);
        }
    }

    /// Locks the fake's state for a thread of a living process; another one waits for ever. The
    /// check is made under the lock, so that no thread passes after its process's end.
    pub(crate) fn admit<'a, T>(&self, state: &'a Mutex<T>) -> MutexGuard<'a, T> {
        let bar = self.bar.lock().clone();
        loop {
            let locked = state.lock();
            if !bar.as_ref().is_some_and(|barred| barred()) {
                return locked;
            }
            drop(locked);
            std::thread::park();
        }
    }
}

impl<C> Default for Gate<C> {
    fn default() -> Self {
        Self { before: Mutex::default(), bar: Mutex::default() }
    }
}

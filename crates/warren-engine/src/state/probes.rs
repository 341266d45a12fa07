use parking_lot::{Mutex, MutexGuard};

/// What each backend last said, and when.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    last: Mutex<Option<(u64, Vec<Probe>)>>,
}

/// A backend, and the checks that failed.
pub(crate) type Probe = (String, Vec<String>);

impl Probes {
    pub(crate) fn last(&self) -> MutexGuard<'_, Option<(u64, Vec<Probe>)>> {
        self.last.lock()
    }
}

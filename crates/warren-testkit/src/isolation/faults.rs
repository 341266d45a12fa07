use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use warren_core::IsolationErrorKind;

use super::FakeIsolation;

/// A method of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    Create,
    Image,
    HandOver,
    Dial,
    Watch,
    Freeze,
    Thaw,
    Halt,
    Destroy,
    Seal,
    Suspend,
    Writable,
    Flush,
    Clear,
    List,
    Usage,
    Probe,
}

impl Call {
    pub(super) fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Keeps calls of one kind from returning while it exists.
#[derive(Debug)]
pub struct Hold {
    backend: Arc<FakeIsolation>,
    call: Call,
}

impl Hold {
    pub(super) fn new(backend: Arc<FakeIsolation>, call: Call) -> Self {
        Self { backend, call }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.backend.let_go(self.call);
    }
}

/// The failures asked for, and how often each call was made.
#[derive(Debug, Default)]
pub(super) struct Faults {
    next: BTreeMap<Call, Vec<IsolationErrorKind>>,
    always: BTreeMap<Call, IsolationErrorKind>,
    delays: BTreeMap<Call, Duration>,
    holds: BTreeMap<Call, usize>,
    waiting: BTreeMap<Call, usize>,
    calls: BTreeMap<Call, u64>,
    away: bool,
}

impl Faults {
    pub(super) fn set_away(&mut self, away: bool) {
        self.away = away;
    }

    pub(super) fn fail_next(&mut self, call: Call, kind: IsolationErrorKind) {
        self.next.entry(call).or_default().insert(0, kind);
    }

    pub(super) fn fail_always(&mut self, call: Call, kind: Option<IsolationErrorKind>) {
        match kind {
            Some(kind) => self.always.insert(call, kind),
            None => self.always.remove(&call),
        };
    }

    pub(super) fn forgive(&mut self) {
        self.next.clear();
        self.always.clear();
    }

    pub(super) fn delay(&mut self, call: Call, span: Duration) {
        self.delays.insert(call, span);
    }

    pub(super) fn hold(&mut self, call: Call) {
        *self.holds.entry(call).or_default() += 1;
    }

    pub(super) fn let_go(&mut self, call: Call) {
        if let Some(holds) = self.holds.get_mut(&call) {
            *holds = holds.saturating_sub(1);
        }
    }

    pub(super) fn is_held(&self, call: Call) -> bool {
        self.holds.get(&call).is_some_and(|holds| *holds > 0)
    }

    pub(super) fn held(&self, call: Call) -> usize {
        if self.is_held(call) { self.waiting.get(&call).copied().unwrap_or_default() } else { 0 }
    }

    pub(super) fn calls(&self, call: Call) -> u64 {
        self.calls.get(&call).copied().unwrap_or_default()
    }

    /// Counts a call, and returns how long it is to take.
    pub(super) fn begin(&mut self, call: Call) -> Option<Duration> {
        *self.calls.entry(call).or_default() += 1;
        *self.waiting.entry(call).or_default() += 1;
        self.delays.get(&call).copied()
    }

    /// The failure asked for this call, if any.
    pub(super) fn end(&mut self, call: Call) -> Option<IsolationErrorKind> {
        if let Some(waiting) = self.waiting.get_mut(&call) {
            *waiting = waiting.saturating_sub(1);
        }
        if self.away {
            return Some(IsolationErrorKind::Away);
        }
        let once = self.next.get_mut(&call).and_then(Vec::pop);
        once.or_else(|| self.always.get(&call).copied())
    }
}

//! Resources that sandboxes used in the last hour, kept in memory.

use std::collections::{HashMap, VecDeque};

use parking_lot::{Mutex, MutexGuard};
use warren_core::SandboxId;

/// The samples that are kept of one sandbox: an hour.
const MOST_KEPT: usize = 720;

/// Resources that a sandbox used at one moment. All sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub(crate) at_unix_ms: u64,
    pub(crate) cpu_count: u32,
    pub(crate) cpu_used_pct: f64,
    pub(crate) mem_used: u64,
    pub(crate) mem_total: u64,
    pub(crate) mem_cache: u64,
    pub(crate) disk_used: u64,
    pub(crate) disk_total: u64,
}

/// The samples of sandboxes that live.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    known: Mutex<HashMap<SandboxId, Known>>,
}

#[derive(Debug, Default)]
pub(crate) struct Known {
    kept: VecDeque<Measured>,
    /// When its processor time was last looked at, and how much it was.
    clock: Option<(u64, u64)>,
    cpu_used_pct: f64,
}

impl Samples {
    pub(crate) fn keep(&self, id: &SandboxId, measured: Measured) {
        let mut known = self.lock();
        let kept = &mut known.entry(id.clone()).or_default().kept;
        if kept.len() >= MOST_KEPT {
            kept.pop_front();
        }
        kept.push_back(measured);
    }

    /// The oldest first.
    pub(crate) fn of(&self, id: &SandboxId) -> Vec<Measured> {
        self.lock().get(id).map(|known| known.kept.iter().copied().collect()).unwrap_or_default()
    }

    pub(crate) fn retain(&self, lives: impl Fn(&SandboxId) -> bool) {
        self.lock().retain(|id, _| lives(id));
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Known>> {
        self.known.lock()
    }
}

impl Known {
    /// The share of its processors that it used since the last look, in percent, to two digits.
    pub(crate) fn cpu_used(&mut self, now_ms: u64, cpu_ns: u64, cpus: f64) -> f64 {
        if let Some((before_ms, before_ns)) = self.clock
            && now_ms > before_ms
        {
            let (passed_ns, used_ns) =
                ((now_ms - before_ms) as f64 * 1e6, cpu_ns.saturating_sub(before_ns) as f64);
            let share = used_ns / (passed_ns * cpus.max(0.001));
            self.cpu_used_pct = (share * 10_000.0).round().clamp(0.0, 10_000.0) / 100.0;
        }
        if self.clock.is_none_or(|(before_ms, _)| now_ms > before_ms) {
            self.clock = Some((now_ms, cpu_ns));
        }
        self.cpu_used_pct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_told_as_a_share_of_what_it_may_use() {
        let mut known = Known::default();
        assert_eq!(known.cpu_used(1000, 5_000_000, 2.0), 0.0);
        // A second later it has used half a second of the two that it might have.
        assert_eq!(known.cpu_used(2000, 505_000_000, 2.0), 25.0);
        assert_eq!(known.cpu_used(2000, 900_000_000, 2.0), 25.0, "no time has passed");
        assert_eq!(known.cpu_used(3000, 9_005_000_000, 2.0), 100.0);
        assert_eq!(known.cpu_used(4000, 0, 2.0), 0.0, "another life began");
    }

    #[test]
    fn no_more_is_kept_than_an_hour() {
        let (samples, id) = (Samples::default(), SandboxId::from_random([1; 16]));
        for at_unix_ms in 0..2000 {
            let measured = Measured {
                at_unix_ms,
                cpu_count: 1,
                cpu_used_pct: 0.0,
                mem_used: 0,
                mem_total: 0,
                mem_cache: 0,
                disk_used: 0,
                disk_total: 0,
            };
            samples.keep(&id, measured);
        }
        let kept = samples.of(&id);
        assert_eq!((kept.len(), kept[0].at_unix_ms, kept[719].at_unix_ms), (720, 1280, 1999));
        samples.retain(|_| false);
        assert!(samples.of(&id).is_empty());
    }
}

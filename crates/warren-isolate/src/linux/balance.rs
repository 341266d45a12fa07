//! Sharing the processors when there are not enough. The kernel shares them evenly among busy
//! control groups, so an owner of ten busy sandboxes would get ten times as much as an owner of
//! one. Here every owner's group of sandboxes gets the same: the more of a group are busy, the less
//! each of them weighs. An idle sandbox keeps its full weight, so it answers at once.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use parking_lot::Mutex;
use warren_core::SandboxId;

use super::cgroup::Cgroups;

/// The weight of a sandbox that is idle, or the only busy one of its group.
const FULL: u32 = 100;
/// A sandbox is busy if it used more than this part of a processor since the last look.
const BUSY: f64 = 0.01;
/// There are enough processors while more than this part of them is idle.
const ENOUGH: f64 = 0.2;

/// Weighs sandboxes, with the figures of the last look.
#[derive(Debug, Default)]
pub(super) struct Balance(Mutex<LastLook>);

#[derive(Debug, Default)]
struct LastLook {
    machine: Option<Ticks>,
    at: Option<Instant>,
    sandboxes: HashMap<SandboxId, Weighed>,
}

#[derive(Debug, Clone, Copy)]
struct Weighed {
    cpu_ns: u64,
    weight: Option<u32>,
}

/// Time of all processors together, as the kernel counts it.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Balance {
    /// Weighs the sandboxes of each group anew, unless there is enough for all.
    pub(super) fn restore(&self, cgroups: &Cgroups, groups: &[Vec<SandboxId>]) {
        let mut seen = self.0.lock();
        let now = Ticks::read();
        let is_short = now.zip(seen.machine).is_some_and(|(now, before)| now.idle_since(before) < ENOUGH);
        seen.machine = now;
        if !is_short {
            // The next look begins anew: usage over a long time says nothing about a second.
            seen.at = None;
            return;
        }
        let elapsed = seen.at.replace(Instant::now()).map(|at| at.elapsed());
        let last = std::mem::take(&mut seen.sandboxes);
        for group in groups {
            let used: Vec<u64> = group.iter().map(|id| cgroups.pulse(id.as_str()).cpu_ns).collect();
            let busy: Vec<bool> = group
                .iter()
                .zip(&used)
                .map(|(id, cpu_ns)| {
                    let before = last.get(id).zip(elapsed);
                    before.is_some_and(|(before, elapsed)| {
                        let used = cpu_ns.saturating_sub(before.cpu_ns) as f64;
                        used > BUSY * elapsed.as_nanos() as f64
                    })
                })
                .collect();
            for ((id, cpu_ns), weight) in group.iter().zip(used).zip(weights(&busy)) {
                let before = last.get(id).and_then(|before| before.weight);
                let weight = if before == Some(weight) || cgroups.weigh(id.as_str(), weight).is_ok() {
                    Some(weight)
                } else {
                    // It has just ended, or the machine has no such weights.
                    None
                };
                seen.sandboxes.insert(id.clone(), Weighed { cpu_ns, weight });
            }
        }
    }
}

/// The weights of one group's sandboxes.
fn weights(busy: &[bool]) -> impl Iterator<Item = u32> {
    let count = busy.iter().filter(|busy| **busy).count();
    let share = FULL / u32::try_from(count.max(1)).unwrap_or(FULL);
    busy.iter().map(move |busy| if *busy { share.max(1) } else { FULL })
}

impl Ticks {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line: `cpu  user nice system idle iowait irq softirq steal guest guest_nice`, the
    /// last two being in the first two.
    fn parse(text: &str) -> Option<Self> {
        let words = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let fields: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        let idle = fields.get(3)?.saturating_add(*fields.get(4)?);
        Some(Self { idle, all: fields.iter().sum() })
    }

    /// The part of the time that was idle.
    fn idle_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        if all == 0 { 1.0 } else { self.idle.saturating_sub(before.idle) as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_a_group_that_are_busy_share_what_one_would_have() {
        let weighed = |busy: &[bool]| weights(busy).collect::<Vec<_>>();
        assert_eq!(weighed(&[true]), [100]);
        assert_eq!(weighed(&[true, false, true, true, true]), [25, 100, 25, 25, 25]);
        assert_eq!(weighed(&[true; 300])[0], 1, "nobody weighs nothing");
    }

    #[test]
    fn idle_time_is_read_from_what_the_kernel_says() {
        let before = Ticks::parse("cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 1 1").unwrap();
        let now = Ticks::parse("cpu  20 5 20 75 10 0 5 0 9 9\n").unwrap();
        assert!((now.idle_since(before) - 5.0 / 35.0).abs() < 1e-9);
        assert!(Ticks::parse("intr 1 2 3").is_none() && Ticks::parse("cpu  1 2").is_none());
        assert!((now.idle_since(now) - 1.0).abs() < 1e-9);
    }
}

//! Many sandboxes alive at once: the memory of each, and the time to make the last.

use std::fs;
use std::time::{Duration, Instant};

use warren_core::SandboxId;

use crate::machine::meminfo;
use crate::plan::Case;
use crate::report::{Figures, Row};
use crate::session::Session;

/// The number of creates at each end that are compared.
const END: usize = 20;
const READINGS: usize = 5;
const BETWEEN_READINGS: Duration = Duration::from_millis(100);

/// Memory is measured again if other programs may have changed it by more than this part.
const BEARABLE: f64 = 0.1;
const ATTEMPTS: usize = 3;

pub(crate) fn measure(session: &mut Session<'_>) -> anyhow::Result<()> {
    let mut best = gather(session)?;
    let memory = session.wants(Case::IdleMemory);
    for _ in 1..ATTEMPTS {
        if !memory || best.worst_doubt() <= BEARABLE {
            break;
        }
        let again = gather(session)?;
        if again.worst_doubt() < best.worst_doubt() {
            best = again;
        }
    }
    if memory {
        session.report.rows.extend(best.memory);
    }
    if session.wants(Case::CreateAt1000) {
        enter_ends(session, &best.times);
    }
    Ok(())
}

/// The figures of one crowd.
struct Crowd {
    memory: Vec<Row>,
    times: Vec<Duration>,
}

impl Crowd {
    /// The largest part of a figure that other programs may have caused.
    fn worst_doubt(&self) -> f64 {
        let doubt = |row: &Row| match row.figures {
            Figures::Memory { kib_each, uncertain_kib } if kib_each > 0.0 => uncertain_kib / kib_each,
            _ => f64::INFINITY,
        };
        self.memory.iter().map(doubt).fold(0.0, f64::max)
    }
}

fn gather(session: &Session<'_>) -> anyhow::Result<Crowd> {
    let mut alive = Vec::new();
    let measured = populate(session, &mut alive);
    session.progress("removing the crowd");
    for id in &alive {
        session.engine.destroy(id)?;
    }
    session.engine.settle()?;
    let Populated { before, steps, times } = measured?;
    let without = [before, used_memory()];
    let memory = steps.into_iter().map(|(count, with)| memory_row(count, without, with)).collect();
    Ok(Crowd { memory, times })
}

fn enter_ends(session: &mut Session<'_>, times: &[Duration]) {
    let case = format!("create_at_{}", times.len());
    let end = END.min(times.len());
    for (subject, times) in [("create_first", &times[..end]), ("create_last", &times[times.len() - end..])] {
        session.enter_times(&case, subject, &times.iter().copied().collect());
    }
}

struct Populated {
    before: Used,
    /// The use when so many were alive.
    steps: Vec<(usize, Used)>,
    times: Vec<Duration>,
}

/// Makes sandboxes until there are as many as wanted. Those made are in `alive` even if a later one
/// fails.
fn populate(session: &Session<'_>, alive: &mut Vec<SandboxId>) -> anyhow::Result<Populated> {
    for _ in 0..session.plan.sizes.warm_ups {
        session.engine.destroy(&session.engine.create()?)?;
    }
    session.engine.settle()?;
    let mut populated = Populated { before: used_memory(), steps: Vec::new(), times: Vec::new() };
    for &count in session.plan.sizes.crowds {
        while alive.len() < count {
            let begun = Instant::now();
            alive.push(session.engine.create()?);
            populated.times.push(begun.elapsed());
            session.go_on()?;
            if alive.len().is_multiple_of(50) {
                session.progress(&format!("{} of {count} alive", alive.len()));
            }
        }
        populated.steps.push((count, used_memory()));
    }
    Ok(populated)
}

pub(crate) fn memory_row(count: usize, without: [Used; 2], with: Used) -> Row {
    let [before, after] = without.map(|used| [used.not_available, used.accounted]);
    let with = [with.not_available, with.accounted];
    let differences = [0, 1].map(|way| with[way] - f64::midpoint(before[way], after[way]));
    // The kernel's two ways of counting leave out different things: the larger is right about more.
    let way = usize::from(differences[1] > differences[0]);
    let each = |kib: f64| kib / count as f64;
    Row {
        case: format!("idle_memory_{count}"),
        subject: "warren".to_owned(),
        n: count,
        figures: Figures::Memory {
            kib_each: each(differences[way]),
            uncertain_kib: each((after[way] - before[way]).abs() / 2.0),
        },
    }
}

/// The whole machine's use of memory, in KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    /// All memory except what the kernel calls available.
    not_available: f64,
    /// The sum of all uses that the kernel names, without caches of file content.
    accounted: f64,
}

/// The least of a few readings after dropping caches, since other programs can only add.
pub(crate) fn used_memory() -> Used {
    let readings = (0..READINGS).map(|_| {
        // Without the right to do so the caches stay, before as well as after.
        drop(fs::write("/proc/sys/vm/drop_caches", "3"));
        std::thread::sleep(BETWEEN_READINGS);
        Used::of(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
    });
    let least = |a: Used, b: Used| Used {
        not_available: a.not_available.min(b.not_available),
        accounted: a.accounted.min(b.accounted),
    };
    readings.reduce(least).unwrap_or(Used { not_available: 0.0, accounted: 0.0 })
}

impl Used {
    fn of(text: &str) -> Self {
        let amounts = meminfo(text);
        let kib = |name: &str| amounts.get(name).copied().unwrap_or_default() as f64;
        // Kernel stacks are part of what vmalloc gave out.
        let uses = ["AnonPages", "Shmem", "Slab", "VmallocUsed", "PageTables", "SecPageTables", "Percpu"];
        Self {
            not_available: kib("MemTotal") - kib("MemAvailable"),
            accounted: uses.into_iter().map(kib).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_both_ways() {
        let used =
            Used::of("MemTotal: 100 kB\nMemAvailable: 60 kB\nAnonPages: 10 kB\nSlab: 7 kB\nCached: 50 kB\n");
        assert_eq!((used.not_available, used.accounted), (40.0, 17.0));
    }
}

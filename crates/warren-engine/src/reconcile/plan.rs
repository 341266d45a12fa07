//! Decides what a start does with what was found. Pure.

use std::collections::{HashMap, HashSet};

use warren_core::{Found, NodeId, OwnerBond, SandboxId, SandboxRecord, Status};

use crate::driver::{MARK, Remains, SPARE};

/// Fewer than this that are missing are believed.
const FEW: usize = 5;

/// The work of a start.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<(SandboxRecord, Decision)>,
    /// Found, marked as ours, and in no record.
    pub(super) orphans: Vec<SandboxId>,
    /// Machines that were made ahead of time and were nobody's.
    pub(super) spares: Vec<SandboxId>,
    /// Of those that should run, how many are gone with their files.
    pub(super) missing: usize,
    /// Records whose backend did not say what it has. They are left as they are.
    pub(super) unheard: Vec<SandboxId>,
    should_run: usize,
    ours_found: usize,
}

/// The next step for a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Adopt { frozen: bool },
    Settle(Remains),
}

impl Plan {
    /// `known` are those that have a driver already, and `heard` the backends that said what they
    /// have.
    pub(super) fn make(
        records: &[SandboxRecord],
        found: &HashMap<&SandboxId, &Found>,
        known: impl Fn(&SandboxId) -> bool,
        heard: impl Fn(&str) -> bool,
        node: &NodeId,
        boot_id: &str,
    ) -> Self {
        let mut plan = Self::default();
        for record in records {
            if !heard(&record.backend) {
                plan.unheard.push(record.id.clone());
                continue;
            }
            let seen = found.get(&record.id).copied();
            if matches!(record.status, Status::Ready | Status::Paused) {
                plan.should_run += 1;
                plan.missing += usize::from(seen.is_none() && !record.unplaced);
            }
            let in_order =
                !record.is_live() && !seen.is_some_and(|found| found.alive) && record.left.is_none();
            if !in_order && !known(&record.id) {
                plan.steps.push((record.clone(), conclude(record, seen, boot_id)));
            }
        }
        let recorded: HashSet<&SandboxId> = records.iter().map(|record| &record.id).collect();
        for sandbox in found.values().filter(|found| is_ours(found, node)) {
            let unknown = !recorded.contains(&sandbox.id) && !known(&sandbox.id);
            if unknown && sandbox.spec.labels.contains_key(SPARE) {
                plan.spares.push(sandbox.id.clone());
                continue;
            }
            plan.ours_found += 1;
            if unknown {
                plan.orphans.push(sandbox.id.clone());
            }
        }
        plan
    }

    /// Why this is rather not to be believed; `None` when it is.
    pub(super) fn doubt(&self) -> Option<String> {
        let most = |some: usize, all: usize| some >= FEW && some * 2 > all;
        if most(self.missing, self.should_run) {
            return Some(format!(
                "{} of {} sandboxes that should run are gone with their files, as after a wrong mount; accept the losses, or \
                 bring the files back and start again",
                self.missing, self.should_run
            ));
        }
        let orphans = self.orphans.len();
        most(orphans, self.ours_found).then(|| {
            format!(
                "{orphans} of {} sandboxes on this machine are in no record, as after an old backup; accept the losses, which \
                 removes them, or bring the catalog back and start again",
                self.ours_found
            )
        })
    }
}

fn conclude(record: &SandboxRecord, seen: Option<&Found>, boot_id: &str) -> Decision {
    match record.status {
        Status::Creating if record.death.is_some() => Decision::Settle(Remains::HalfResumed),
        Status::Creating => Decision::Settle(Remains::HalfMade),
        Status::Stopped | Status::Failed if !seen.is_some_and(|found| found.alive) => {
            Decision::Settle(Remains::LeftBehind)
        }
        // A start that failed could not be undone.
        Status::Stopped | Status::Failed => Decision::Settle(Remains::HalfResumed),
        Status::Stopping => Decision::Settle(Remains::HalfEnded),
        Status::Ready | Status::Paused => match seen {
            Some(found) if found.alive => Decision::Adopt { frozen: found.frozen },
            Some(_) | None if record.unplaced => Decision::Settle(Remains::HalfMoved),
            Some(_) if record.deadline.boot_id == boot_id => Decision::Settle(Remains::Dead),
            Some(_) => Decision::Settle(Remains::SwitchedOff),
            None => Decision::Settle(Remains::Gone),
        },
    }
}

/// True if this engine made it. A sandbox that dies with its maker belongs to a process that runs
/// now.
fn is_ours(found: &Found, node: &NodeId) -> bool {
    found.owner == OwnerBond::Outlives
        && found.spec.labels.get(MARK).is_some_and(|mark| mark == node.as_str())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

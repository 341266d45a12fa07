//! The links of sandboxes that were there before the engine: taken over with those that live, taken
//! away with the rest.

use std::collections::{HashMap, HashSet};

use warren_core::SandboxId;

use super::plan::{Decision, Plan};
use crate::Engine;
use crate::driver::Adopted;
use crate::error::sentence;

/// Takes over the links of all that are to be adopted. Blocks.
pub(super) fn take_over(engine: &Engine, plan: &Plan) -> HashMap<SandboxId, Adopted> {
    let adopt = |decision: &Decision| matches!(decision, Decision::Adopt { .. });
    let alive = plan.steps.iter().filter(|(_, decision)| adopt(decision));
    alive.map(|(record, _)| (record.id.clone(), engine.adopt_link(record))).collect()
}

/// Takes away all others, but for those of sandboxes that stay as long as the plan is in doubt.
/// Blocks.
pub(super) fn take_away_others(
    engine: &Engine,
    adopted: &HashMap<SandboxId, Adopted>,
    plan: &Plan,
    doubtful: bool,
) {
    let linked = |(id, link): (&SandboxId, &Adopted)| match link {
        Adopted::Linked(_) => Some(id.clone()),
        Adopted::NoLink | Adopted::Lost(_) => None,
    };
    let mut keep: HashSet<SandboxId> = adopted.iter().filter_map(linked).collect();
    // They may run. What the kernel holds them to, it goes on holding them to.
    keep.extend(plan.unheard.iter().cloned());
    if doubtful {
        keep.extend(plan.orphans.iter().chain(&plan.spares).cloned());
    }
    if let Err(error) = engine.shared.parts.networks.retain(&keep) {
        engine.fault();
        tracing::error!(error = sentence(&error), "links of sandboxes that are gone are left");
    }
}

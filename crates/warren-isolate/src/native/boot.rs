//! From parts to a first process: the agent is cloned into its namespaces and isolates itself.

use warren_core::{CreateRequest, IsolationError};

use crate::linux::{Backend, CrashPoint, Hold, Parts};

/// Clones the agent into its namespaces, sends it the plan and waits for its report.
pub(super) fn start(
    backend: &Backend,
    request: &CreateRequest,
    parts: &Parts,
    hold: &mut Hold,
) -> Result<u32, IsolationError> {
    backend.limit(request)?;
    let plan = parts.plan(backend, request, backend.lifeline(request.owner));
    let mut inherited = parts.descriptors();
    inherited.extend(plan.lifeline);
    inherited.extend(plan.outside.as_ref().map(|outside| outside.socket));
    let flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    let (pid, control) =
        backend.launch("boot", inherited, flags, parts.entrance.clone_into.as_ref(), hold)?;
    backend.passed(CrashPoint::CreateSpawn);
    control.converse(&plan)?;
    backend.passed(CrashPoint::CreateBoot);
    Ok(pid)
}

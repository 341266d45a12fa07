//! The limits, capabilities and seccomp filter of the sandbox's processes. All are inherited, and
//! none can be undone.

use std::time::Duration;

use rustix::io::Errno;
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets, CpuSet};
use warren_wire::guest::{BootPlan, Rlimit};

use super::report::{Refusal, StepResult};
use super::sys;

/// Limits that are set while the host's rights still allow it.
pub(super) fn limit(plan: &BootPlan) -> Result<(), Refusal> {
    sys::new_session_keyring().step("keyring", "replace the session keyring")?;
    limit_process(&plan.rlimits, &plan.cpus)
}

/// Limits that need no rights.
pub(super) fn limit_process(rlimits: &[Rlimit], processors: &[u32]) -> Result<(), Refusal> {
    for limit in rlimits {
        sys::set_rlimit(limit.resource, limit.value)
            .step("rlimits", format!("set limit {}", limit.resource))?;
    }
    if processors.is_empty() {
        return Ok(());
    }
    let mut cpus = CpuSet::new();
    for &cpu in processors {
        if cpu as usize >= CpuSet::MAX_CPU {
            return Err(Refusal::new("cpu affinity", format!("there is no processor {cpu}")));
        }
        cpus.set(cpu as usize);
    }
    rustix::thread::sched_setaffinity(None, &cpus).step("cpu affinity", "set it")
}

/// Gives up everything that is not in the plan, and checks that it is gone.
pub(super) fn drop_for_good(plan: &BootPlan) -> Result<(), Refusal> {
    let kept = CapabilitySet::from_bits_retain(plan.capabilities);
    sys::limit_bounding_set(plan.capabilities).step("capabilities", "limit the bounding set")?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).step("capabilities", "drop what is not kept")?;
    rustix::thread::clear_ambient_capability_set().step("capabilities", "clear the ambient set")?;
    rustix::thread::set_no_new_privs(true).step("no_new_privs", "set it")?;
    hide()?;
    let held = rustix::thread::capabilities(None).step("capabilities", "read them back")?;
    if held != sets || sys::bounding_set_exceeds(plan.capabilities) {
        return Err(Refusal::new("capabilities", "some are still there after the drop"));
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    load_filter(&plan.seccomp).step("seccomp", "load the filter")
}

/// The sandbox's own root may not look into its agent.
pub(super) fn hide() -> Result<(), Refusal> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).step("agent", "hide its memory")
}

/// The kernel's answer when it has no memory left for compiled filters (`ENOTSUPP`).
const NO_ROOM: Errno = Errno::from_raw_os_error(524);
/// The first rest; each is twice as long as the one before, 1.3 s in all.
const FIRST_REST: Duration = Duration::from_millis(10);
const LAST_REST: Duration = Duration::from_millis(640);

/// The memory for compiled filters is the whole machine's: what is used up may be free again in a
/// moment.
pub(super) fn load_filter(program: &[u8]) -> Result<(), Errno> {
    let mut rest = FIRST_REST;
    loop {
        match sys::load_seccomp(program) {
            Err(NO_ROOM) if rest <= LAST_REST => std::thread::sleep(rest),
            answer => return answer,
        }
        rest *= 2;
    }
}

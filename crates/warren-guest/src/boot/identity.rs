//! The rights of the process, step by step from the host's root to the sandbox's root.

use rustix::io::Errno;
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets, Gid, Uid};
use warren_wire::guest::{BootPlan, STRANGER};

use super::report::{Refusal, StepResult};
use super::sys;

/// Makes files created from here on belong to the sandbox's root, with all capabilities kept: an
/// overlay on id-mapped layers acts with the ids of its mounter, and the host's root has none
/// inside the mapping.
pub(super) fn assume_file_ids(base: u32) -> Result<(), Errno> {
    rustix::thread::set_capabilities_secure_bits(CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
    // The overlay keeps the mounter's capabilities for good, and this one would let it ignore disk
    // quotas.
    sys::drop_quota_override()?;
    sys::set_file_ids(base)
}

/// Mounts something with the rights of a user who owns nothing, is in no group and may overrule
/// nothing. Afterwards the rights are those of the sandbox whose ids begin at `base`, as before.
pub(super) fn as_a_stranger<T>(base: u32, mount: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let sets = rustix::thread::capabilities(None)?;
    rustix::thread::set_thread_groups(&[])?;
    sys::set_file_ids(STRANGER)?;
    let to_mount = CapabilitySets { effective: CapabilitySet::SYS_ADMIN, ..sets };
    rustix::thread::set_capabilities(None, to_mount)?;
    let mounted = mount();
    rustix::thread::set_capabilities(None, sets)?;
    sys::set_file_ids(base)?;
    mounted
}

/// The last id of a sandbox's range is the agent's own. The sandbox's user namespace does not map
/// it, so nobody inside can ever have it: to set limits, priorities or processors of another
/// process takes its user, or capabilities that no sandbox has.
const AGENT: u32 = 65_535;

/// Enters the sandbox's user namespace with all rights in it, as a user that does not exist there.
/// For files it is the sandbox's root.
pub(super) fn enter(plan: &BootPlan) -> Result<(), Refusal> {
    let namespace = sys::inherit(plan.user_namespace).step("user namespace", "take it")?;
    let agent = plan.id_base.saturating_add(AGENT);
    let leave_root = || {
        rustix::thread::set_thread_groups(&[])?;
        let (user, group) = (Uid::from_raw(agent), Gid::from_raw(agent));
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)
    };
    leave_root().step("user namespace", "become the agent's own user")?;
    sys::enter_user_namespace(&namespace).step("user namespace", "enter it")?;
    sys::set_file_ids(0).step("user namespace", "take its root's rights to files")
}

/// Enters the sandbox's user namespace as its root.
pub(super) fn enter_as_root(plan: &BootPlan) -> Result<(), Refusal> {
    let namespace = sys::inherit(plan.user_namespace).step("user namespace", "take it")?;
    let become_root = || {
        rustix::thread::set_thread_groups(&[])?;
        sys::enter_user_namespace(&namespace)?;
        rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
        rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)
    };
    become_root().step("user namespace", "enter it as root")
}

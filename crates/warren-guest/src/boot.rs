//! From a freshly executed static binary to PID 1 of a sandbox, on the native backend.
//!
//! The backend clones this process into new namespaces (all but the user namespace) and hands it a
//! [`BootPlan`]. It still has the host root's rights here, and nothing from the tenant runs: every
//! path inside the tenant's tree is opened confined to it. The rights are given up last, in one go,
//! and checked.
//!
//! The order: control groups, network, host name, clocks, overlay trees, own file systems, the
//! user's mounts, pivot, resource limits, user namespace, capabilities, seccomp.
//!
//! Any failure is reported with the name of its step and ends the process: a sandbox is isolated by
//! every layer or does not exist.

mod files;
mod identity;
mod machine;
mod overlay;
mod privileges;
mod report;
mod root;
mod serve;
mod shown;
pub(crate) mod stage;
mod sudo;
mod sys;

use std::ffi::OsStr;
use std::sync::Arc;

use warren_wire::guest::{AgentConfig, BootPlan};

pub(crate) use self::serve::{Listener, serve};

use self::report::{Refusal, StepResult};
use crate::agent::Doors;
use crate::machine::Machine;
use crate::outside::Outside;

/// The parts of the plan that the agent needs for its life.
#[derive(Debug)]
pub(crate) struct Booted {
    pub(crate) doors: Doors,
    pub(crate) config: AgentConfig,
    pub(crate) machine: Option<Machine>,
}

/// Carries out the plan that arrives on the control socket, and reports on the same. `None`: it
/// failed, the report says how, and the process has nothing left to do.
pub(crate) fn run(control: &OsStr) -> Option<Booted> {
    let control = sys::inherit(control.to_str()?.parse().ok()?).ok()?;
    let outcome = report::receive(&control).and_then(follow);
    report::send(&control, outcome.as_ref().err());
    outcome.ok()
}

fn follow(plan: BootPlan) -> Result<Booted, Refusal> {
    sys::close_on_exec_from(3).step("descriptors", "mark inherited descriptors")?;
    let listener = sys::inherit(plan.listener).step("descriptors", "take the listening socket")?;
    let lifeline = plan.lifeline.map(sys::inherit).transpose().step("descriptors", "take the lifeline")?;
    join_cgroups(&plan)?;
    sys::unshare_cgroup().step("cgroup namespace", "unshare it")?;
    enter_network(&plan)?;
    rustix::system::sethostname(plan.hostname.as_bytes()).step("hostname", "set the host name")?;
    let began = plan.machine.as_ref().map(machine::set_clocks).transpose()?;
    let outside = plan.outside.as_ref().map(|outside| sys::inherit(outside.socket)).transpose();
    let outside = outside.step("descriptors", "take the way outside")?;
    let outside = plan.outside.as_ref().zip(outside);
    let outside = outside.map(|(plan, socket)| Arc::new(Outside::new(plan.sandbox.clone(), socket)));
    let (machine, sudo) = root::build(&plan, began)?;
    privileges::limit(&plan)?;
    identity::enter(&plan)?;
    privileges::drop_for_good(&plan)?;
    Ok(Booted {
        doors: Doors { listener, socket: None, lifeline, sudo, outside },
        config: plan.agent,
        machine,
    })
}

/// Writing `0` moves the writer itself, which spares the kernel the lock that moving another
/// process takes.
fn join_cgroups(plan: &BootPlan) -> Result<(), Refusal> {
    for &number in &plan.cgroup_tasks {
        let tasks = sys::inherit(number).step("cgroup", "take a tasks file")?;
        rustix::io::write(&tasks, b"0").step("cgroup", "join a control group")?;
    }
    Ok(())
}

fn enter_network(plan: &BootPlan) -> Result<(), Refusal> {
    let namespace = sys::inherit(plan.network).step("network namespace", "take it")?;
    sys::enter_network(&namespace).step("network namespace", "enter it")
}

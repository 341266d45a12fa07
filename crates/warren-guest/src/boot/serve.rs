//! From a process that a runtime has isolated to a sandbox's agent: what is left to be taken away,
//! and the doors.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use warren_wire::guest::{AgentConfig, ByteString, FdNumber, MAX_PAYLOAD, ServePlan, ServedMachine};

use super::report::{Refusal, StepResult};
use super::{Booted, privileges, sys};
use crate::agent::Doors;
use crate::machine::{Cover, Covers, Gauges, Machine, Size};

/// The source of an agent's calls.
#[derive(Debug)]
pub(crate) enum Listener {
    /// A socket that was opened outside.
    Inherited(FdNumber),
    Own(OwnedFd, PathBuf),
}

/// Carries out the plan in `plan`, a descriptor's number or a path. Without one the process stays
/// as it is.
pub(crate) fn serve(listener: Listener, plan: Option<&OsStr>) -> Result<Booted, Refusal> {
    let (listener, socket) = match listener {
        Listener::Inherited(number) => (sys::inherit(number).step("descriptors", "take the listener")?, None),
        Listener::Own(listener, socket) => (listener, Some(socket)),
    };
    let Some(plan) = plan else {
        let doors = Doors { listener, socket, lifeline: None, sudo: None, outside: None };
        return Ok(Booted { doors, config: AgentConfig::default(), machine: None });
    };
    sys::close_on_exec_from(3).step("descriptors", "mark inherited descriptors")?;
    let ServePlan { agent, rlimits, cpus, seccomp, lifeline, machine, lifeline_at } = read(plan)?;
    let lifeline = lifeline.map(sys::inherit_any).transpose().step("descriptors", "take the lifeline")?;
    let at = lifeline_at.map(|path| open_pipe(&path)).transpose().step("descriptors", "open the lifeline")?;
    let lifeline = lifeline.or(at);
    let (machine, sudo) = match machine {
        Some(machine) => furnish(&machine).map(|(machine, sudo)| (Some(machine), Some(sudo)))?,
        None => (None, None),
    };
    privileges::limit_process(&rlimits, &cpus)?;
    privileges::hide()?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if !seccomp.is_empty() {
        privileges::load_filter(&seccomp).step("seccomp", "load the filter")?;
    }
    Ok(Booted { doors: Doors { listener, socket, lifeline, sudo, outside: None }, config: agent, machine })
}

/// Does not wait for somebody at the other end.
fn open_pipe(path: &ByteString) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::open(path.as_bytes(), flags, Mode::empty())
}

fn read(plan: &OsStr) -> Result<ServePlan, Refusal> {
    let failed = |error: std::io::Error| Refusal::new("plan", format!("read the agent's plan: {error}"));
    let file = match plan.to_str().and_then(|text| text.parse().ok()) {
        Some(number) => std::fs::File::from(sys::inherit(number).step("plan", "take the agent's plan")?),
        None => std::fs::File::open(plan).map_err(failed)?,
    };
    let mut packet = Vec::new();
    file.take(MAX_PAYLOAD as u64).read_to_end(&mut packet).map_err(failed)?;
    minicbor::decode(&packet)
        .map_err(|error| Refusal::new("plan", format!("decode the agent's plan: {error}")))
}

/// The machine that the stage has mounted, and the door of `sudo`.
fn furnish(plan: &ServedMachine) -> Result<(Machine, OwnedFd), Refusal> {
    let take = |number: FdNumber| sys::inherit(number).step("machine", "take a descriptor");
    let gauge = |number: Option<FdNumber>| number.map(take).transpose();
    let made = |index: FdNumber| take(plan.made.saturating_add(index));
    let sudo = made(0)?;
    let covers = Covers {
        meminfo: Cover::new(made(1)?),
        stat: Cover::new(made(2)?),
        uptime: Cover::new(made(3)?),
        loadavg: Cover::new(made(4)?),
    };
    let gauges = Gauges {
        memory_used: gauge(plan.memory_used)?,
        memory_stat: gauge(plan.memory_stat)?,
        cpu_used: gauge(plan.cpu_used)?,
        // Below the cover nobody can look any more.
        kernel_load: None,
    };
    let size = Size { memory_bytes: plan.memory_bytes, cpus: plan.cpus };
    Ok((Machine::new(size, gauges, covers, Duration::from_nanos(plan.began_ns)), sudo))
}

//! An engine on another machine. There is no file, process or group that it and we share:
//!
//! ```text
//! what              here                         there
//! agent's binary    a directory, bound           a volume, filled once, read-only in every sandbox
//! agent's plan      a file in a shared one       put into the container before each start
//! dialing           the agent's socket           `warren-guest relay`, started in the container
//! ends              the process's descriptor     the engine's events
//! figures           the kernel's groups          the engine's figures
//! ```
//!
//! The volume is complete when the data directory's file `far/filled` has the moment at which it
//! was made: one that a killed process left, or that somebody else made anew, is filled again.

mod bells;
mod relay;

use std::fs;
use std::io;
use std::path::PathBuf;

use bollard::models::ContainerStatsResponse;
use warren_core::{IsolationError, Pulse, SandboxId, Usage};

pub(super) use self::bells::Bells;
pub(super) use self::relay::dial;
use super::client::{CallError, refused};
use super::door::LOCK_PATIENCE;
use super::{Docker, Engine, shape};
use crate::linux::{BINARY, CrashPoint, PROGRAM, await_lock, layer, place_file};

const DIRECTORY: &str = "far";
const LOCK: &str = "lock";
const FILLED: &str = "filled";
/// Where a container finds its agent's plan. It takes the file away when it has read it.
pub(super) const PLAN: &str = "/.warren-plan";

/// The name of the volume with the agent's binary.
pub(super) fn volume(engine: &Engine) -> String {
    format!("warren-agent-{}-{}", engine.data.instance(), env!("WARREN_GUEST_DIGEST"))
}

/// The name of a container of no use but to reach the volume: it is never started.
fn helper(engine: &Engine) -> String {
    format!("warren-agent-{}", engine.data.instance())
}

fn directory(engine: &Engine) -> PathBuf {
    engine.data.root().join(Docker::PLACE.path()).join(DIRECTORY)
}

/// Makes sure that the volume is there with the agent in it.
pub(super) fn supply(engine: &Engine, id: &SandboxId, image: &str) -> Result<(), IsolationError> {
    let failed = |error| layer("agent's volume", error);
    let directory = directory(engine);
    fs::create_dir_all(&directory).map_err(failed)?;
    let _lock = await_lock(&directory.join(LOCK), LOCK_PATIENCE).map_err(failed)?;
    let (name, instance) = (volume(engine), engine.data.instance());
    let made = engine.client.make_volume(&name, instance);
    let made = made.map_err(|error| refused(id, "make the agent's volume of", error))?;
    let filled = directory.join(FILLED);
    let known = fs::read(&filled).ok().and_then(|text| serde_json::from_slice::<String>(&text).ok());
    if known.is_some_and(|known| known == made) {
        return Ok(());
    }
    let helper = helper(engine);
    let fill = || {
        engine.client.remove(&helper)?;
        engine.client.create(&helper, shape::helper(image, instance, &name))?;
        engine.steps.passed(CrashPoint::DockerHelperMade);
        engine.client.put(&helper, shape::AGENT, agent())?;
        engine.client.remove(&helper)
    };
    fill().map_err(|error: CallError| refused(id, "bring the agent to", error))?;
    place_file(&made, &directory, FILLED, fs::File::sync_data).map_err(failed)
}

/// Puts the agent's plan into a container that does not run.
pub(super) fn plan(engine: &Engine, id: &SandboxId, plan: &[u8]) -> Result<(), IsolationError> {
    let mut archive = tar::Builder::new(Vec::new());
    add(&mut archive, PLAN.trim_start_matches('/'), tar::EntryType::Regular, 0o400, plan);
    let put = engine.client.put(&super::container(id), "/", archive.into_inner().unwrap_or_default());
    put.map_err(|error| refused(id, "bring its plan to", error))
}

/// Takes the volume away from an engine that has no sandboxes of ours any more.
pub(super) fn remove_if_idle(engine: &Engine) -> Result<(), IsolationError> {
    let directory = directory(engine);
    if !directory.join(LOCK).exists() || engine.has_sandboxes() {
        return Ok(());
    }
    let failed = |error| layer("agent's volume", error);
    let _lock = await_lock(&directory.join(LOCK), LOCK_PATIENCE).map_err(failed)?;
    if engine.has_sandboxes() {
        return Ok(());
    }
    let helper = engine.client.remove(&helper(engine));
    let removed = helper.and_then(|()| engine.client.remove_volume(&volume(engine)));
    removed.map_err(|error| error.during("remove the agent's volume"))?;
    match fs::remove_file(directory.join(FILLED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

/// Figures as the engine tells them. It knows no peak where groups are of the second kind.
pub(super) fn usage(bells: &Bells, id: &SandboxId, told: &ContainerStatsResponse) -> Usage {
    let memory = told.memory_stats.as_ref();
    let part = |name: &str| memory?.stats.as_ref()?.get(name).copied();
    let used = memory.and_then(|memory| memory.usage).unwrap_or(0);
    Usage {
        memory_bytes: used,
        memory_peak_bytes: memory.and_then(|memory| memory.max_usage).unwrap_or(used),
        memory_cache_bytes: part("file").or_else(|| part("cache")).unwrap_or(0),
        cpu_ns: cpu(told),
        pids: told.pids_stats.as_ref().and_then(|pids| pids.current).unwrap_or(0),
        oom_kills: bells.kills(id),
        io_bytes: moved(told),
        ..Usage::default()
    }
}

/// It has no network, and so no connections.
pub(super) fn pulse(told: &ContainerStatsResponse) -> Pulse {
    Pulse { cpu_ns: cpu(told), io_bytes: moved(told), connections: 0 }
}

fn cpu(told: &ContainerStatsResponse) -> u64 {
    let used = told.cpu_stats.as_ref().and_then(|cpu| cpu.cpu_usage.as_ref());
    used.and_then(|used| used.total_usage).unwrap_or(0)
}

fn moved(told: &ContainerStatsResponse) -> u64 {
    let moved = told.blkio_stats.as_ref().and_then(|moved| moved.io_service_bytes_recursive.as_ref());
    let counted = moved.into_iter().flatten().filter(|entry| {
        entry.op.as_deref().is_some_and(|op| matches!(op.to_ascii_lowercase().as_str(), "read" | "write"))
    });
    counted.filter_map(|entry| entry.value).fold(0, u64::saturating_add)
}

/// The agent's binary, and where it has its socket.
fn agent() -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    add(&mut archive, shape::SHARED_NAME, tar::EntryType::Directory, 0o700, &[]);
    add(&mut archive, PROGRAM, tar::EntryType::Regular, 0o555, BINARY);
    archive.into_inner().unwrap_or_default()
}

/// Adds what belongs to root. Into memory, under a name that fits: it cannot fail.
fn add(archive: &mut tar::Builder<Vec<u8>>, name: &str, kind: tar::EntryType, mode: u32, content: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(content.len() as u64);
    drop(archive.append_data(&mut header, name, content));
}

impl Engine {
    /// True if the data directory has a sandbox, or what is left of one.
    pub(super) fn has_sandboxes(&self) -> bool {
        let left = || -> io::Result<bool> {
            Ok(!self.data.sandboxes()?.is_empty() || !self.data.trashed()?.is_empty())
        };
        left().unwrap_or(true)
    }
}

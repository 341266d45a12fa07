//! The steps of making, sealing, halting and removing a sandbox, by name. Tests kill the process
//! after each step and check what is left.

use std::str::FromStr;

macro_rules! crash_points {
    ($($point:ident = $name:literal,)+) => {
        /// The moment right after a step.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum CrashPoint {
            $($point,)+
        }

        impl CrashPoint {
            /// Every point, for tests that visit all of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$point,)+];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)+
                }
            }
        }
    };
}

crash_points! {
    CreateDirectory = "create.directory",
    CreateRange = "create.range",
    CreateLayers = "create.layers",
    CreateCgroup = "create.cgroup",
    CreateListener = "create.listener",
    CreateSpawn = "create.spawn",
    OciStaged = "oci.staged",
    OciStarted = "oci.started",
    MemoryLetGo = "memory.let_go",
    MemoryWritten = "memory.written",
    DockerDoorMade = "docker.door_made",
    DockerHelperMade = "docker.helper_made",
    DockerMade = "docker.made",
    DockerFilled = "docker.filled",
    DockerDoorOpen = "docker.door_open",
    DockerStarted = "docker.started",
    LxdMade = "lxd.made",
    LxdStarted = "lxd.started",
    CreateBoot = "create.boot",
    CreateRecord = "create.record",
    ResumeRecord = "resume.record",
    HaltProcesses = "halt.processes",
    HaltRange = "halt.range",
    HaltRecord = "halt.record",
    SealIntent = "seal.intent",
    SealPrepared = "seal.prepared",
    SealStaged = "seal.staged",
    SealStopped = "seal.stopped",
    SealAttached = "seal.attached",
    SealMoving = "seal.moving",
    SealMoved = "seal.moved",
    SealPivoted = "seal.pivoted",
    SealExchanged = "seal.exchanged",
    SealPlacing = "seal.placing",
    SealRecorded = "seal.recorded",
    DeferMade = "defer.made",
    DeferMounted = "defer.mounted",
    DockerCleared = "docker.cleared",
    DestroyKill = "destroy.kill",
    DestroyTrash = "destroy.trash",
    ReapProcesses = "reap.processes",
    DockerRemoved = "docker.removed",
    ReapCgroup = "reap.cgroup",
    ReapFiles = "reap.files",
    ReapRange = "reap.range",
}

/// No step has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no crash point `{0}`")]
pub struct CrashPointError(String);

impl FromStr for CrashPoint {
    type Err = CrashPointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|point| point.name() == text);
        found.ok_or_else(|| CrashPointError(text.to_owned()))
    }
}

/// The step after which the process kills itself, in a test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps(pub(crate) Option<CrashPoint>);

impl Steps {
    /// Marks a step as done, and kills the process if a test asked for it here.
    pub(crate) fn passed(self, point: CrashPoint) {
        if cfg!(debug_assertions) && self.0 == Some(point) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}

impl super::Backend {
    /// As [`Steps::passed`].
    pub(crate) fn passed(&self, point: CrashPoint) {
        self.steps.passed(point);
    }
}

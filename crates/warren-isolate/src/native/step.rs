//! The steps of making, sealing, halting and removing a sandbox, by name. A test kills the process after each and looks at what is left.

use std::str::FromStr;

/// A moment right after one step is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CrashPoint {
    CreateDirectory,
    CreateRange,
    CreateLayers,
    CreateCgroup,
    CreateListener,
    CreateSpawn,
    CreateBoot,
    CreateRecord,
    ResumeRecord,
    HaltProcesses,
    HaltRange,
    HaltRecord,
    SealIntent,
    SealPrepared,
    SealStopped,
    SealAttached,
    SealMoving,
    SealMoved,
    SealPivoted,
    SealExchanged,
    SealPlacing,
    SealRecorded,
    DestroyKill,
    DestroyTrash,
    ReapProcesses,
    ReapCgroup,
    ReapFiles,
    ReapRange,
}

impl CrashPoint {
    /// Every point, for tests that visit all of them.
    pub const ALL: [Self; 28] = [
        Self::CreateDirectory,
        Self::CreateRange,
        Self::CreateLayers,
        Self::CreateCgroup,
        Self::CreateListener,
        Self::CreateSpawn,
        Self::CreateBoot,
        Self::CreateRecord,
        Self::ResumeRecord,
        Self::HaltProcesses,
        Self::HaltRange,
        Self::HaltRecord,
        Self::SealIntent,
        Self::SealPrepared,
        Self::SealStopped,
        Self::SealAttached,
        Self::SealMoving,
        Self::SealMoved,
        Self::SealPivoted,
        Self::SealExchanged,
        Self::SealPlacing,
        Self::SealRecorded,
        Self::DestroyKill,
        Self::DestroyTrash,
        Self::ReapProcesses,
        Self::ReapCgroup,
        Self::ReapFiles,
        Self::ReapRange,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::CreateDirectory => "create.directory",
            Self::CreateRange => "create.range",
            Self::CreateLayers => "create.layers",
            Self::CreateCgroup => "create.cgroup",
            Self::CreateListener => "create.listener",
            Self::CreateSpawn => "create.spawn",
            Self::CreateBoot => "create.boot",
            Self::CreateRecord => "create.record",
            Self::ResumeRecord => "resume.record",
            Self::HaltProcesses => "halt.processes",
            Self::HaltRange => "halt.range",
            Self::HaltRecord => "halt.record",
            Self::SealIntent => "seal.intent",
            Self::SealPrepared => "seal.prepared",
            Self::SealStopped => "seal.stopped",
            Self::SealAttached => "seal.attached",
            Self::SealMoving => "seal.moving",
            Self::SealMoved => "seal.moved",
            Self::SealPivoted => "seal.pivoted",
            Self::SealExchanged => "seal.exchanged",
            Self::SealPlacing => "seal.placing",
            Self::SealRecorded => "seal.recorded",
            Self::DestroyKill => "destroy.kill",
            Self::DestroyTrash => "destroy.trash",
            Self::ReapProcesses => "reap.processes",
            Self::ReapCgroup => "reap.cgroup",
            Self::ReapFiles => "reap.files",
            Self::ReapRange => "reap.range",
        }
    }
}

/// No step has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no crash point `{0}`")]
pub struct CrashPointError(String);

impl FromStr for CrashPoint {
    type Err = CrashPointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|point| point.name() == text)
            .ok_or_else(|| CrashPointError(text.to_owned()))
    }
}

/// Where the process kills itself, if a test asked for that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps(pub(super) Option<CrashPoint>);

impl Steps {
    /// Marks that a step is done. Ends the process on the spot if a test asked for it here.
    pub(super) fn passed(self, point: CrashPoint) {
        if cfg!(debug_assertions) && self.0 == Some(point) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}

impl super::Shared {
    /// As [`Steps::passed`].
    pub(super) fn passed(&self, point: CrashPoint) {
        self.steps.passed(point);
    }
}

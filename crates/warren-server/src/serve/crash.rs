use std::str::FromStr;
use std::sync::Arc;

use warren_engine::EngineStep;
use warren_isolate::CrashPoint;

/// A step after which a test ends the process, of the engine or of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashAt {
    Backend(CrashPoint),
    Engine(EngineStep),
}

/// No step has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no crash point `{0}`")]
pub struct CrashAtError(String);

impl CrashAt {
    /// The backend's part of it.
    pub fn backend(self) -> Option<CrashPoint> {
        match self {
            Self::Backend(point) => Some(point),
            Self::Engine(_) => None,
        }
    }
}

impl FromStr for CrashAt {
    type Err = CrashAtError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let step = EngineStep::ALL.into_iter().find(|step| step.name() == text).map(Self::Engine);
        step.or_else(|| text.parse().ok().map(Self::Backend)).ok_or_else(|| CrashAtError(text.to_owned()))
    }
}

/// The function that the engine calls after each step.
pub(super) fn hook(crash_at: Option<CrashAt>) -> Arc<dyn Fn(EngineStep) + Send + Sync> {
    let step = match crash_at {
        Some(CrashAt::Engine(step)) => Some(step),
        Some(CrashAt::Backend(_)) | None => None,
    };
    Arc::new(move |passed| {
        if cfg!(debug_assertions) && step == Some(passed) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    })
}

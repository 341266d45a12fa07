use warren_core::{OnExpiry, PausedBy, SandboxRecord, Scope, Status};
use warren_e2b::{ENVD_VERSION, rest};

use crate::auth::Caller;
use crate::convert;
use crate::e2b::{Traits, tokens};
use crate::state::AppState;
use warren_face::address::Address;

/// Clients carry it along and know nothing of it.
const CLIENT_ID: &str = "warren";

/// What clients are told of a sandbox's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Running,
    /// With its memory.
    Paused,
    /// Its files alone are left.
    PausedCold,
}

/// Nothing is told of what has ended for good, nor of sandboxes in which images are built.
pub(crate) fn shown_as(record: &SandboxRecord) -> Option<Shown> {
    if record.build.is_some() {
        return None;
    }
    match record.status {
        Status::Creating | Status::Ready => Some(Shown::Running),
        Status::Paused => {
            let asked = record.paused.as_ref().is_some_and(|paused| paused.by == PausedBy::Request);
            Some(if asked { Shown::Paused } else { Shown::Running })
        }
        Status::Stopping | Status::Stopped | Status::Failed => {
            record.files_kept().then_some(Shown::PausedCold)
        }
    }
}

impl Shown {
    pub(crate) fn state(self) -> rest::State {
        match self {
            Self::Running => rest::State::Running,
            Self::Paused | Self::PausedCold => rest::State::Paused,
        }
    }

    fn pause_mode(self) -> Option<rest::PauseMode> {
        match self {
            Self::Running => None,
            Self::Paused => Some(rest::PauseMode::Full),
            Self::PausedCold => Some(rest::PauseMode::Filesystem),
        }
    }
}

/// The answer to whoever made or found it.
pub(super) fn sandbox(state: &AppState, record: &SandboxRecord, address: &Address) -> rest::Sandbox {
    let (traits, keys) = (Traits::of(record), &state.link_keys);
    rest::Sandbox {
        template_id: traits.template_of(record),
        sandbox_id: record.id.to_string(),
        client_id: CLIENT_ID.to_owned(),
        alias: traits.alias,
        envd_version: ENVD_VERSION.to_owned(),
        envd_access_token: Some(tokens::access_token(keys, &record.id)),
        traffic_access_token: (!traits.traffic.public).then(|| tokens::traffic_token(keys, &record.id)),
        domain: Some(address.domain()),
    }
}

pub(super) fn listed(record: &SandboxRecord, shown: Shown) -> rest::ListedSandbox {
    let (traits, limits) = (Traits::of(record), &record.spec.limits);
    rest::ListedSandbox {
        template_id: traits.template_of(record),
        sandbox_id: record.id.to_string(),
        client_id: CLIENT_ID.to_owned(),
        alias: traits.alias,
        started_at: convert::rfc3339(record.created_unix_ms),
        end_at: convert::rfc3339(end_unix_ms(record, shown)),
        cpu_count: u64::from(limits.cpus.milli().div_ceil(1000)),
        memory_mb: limits.memory.0 >> 20,
        disk_size_mb: limits.disk.0 >> 20,
        metadata: record.metadata.clone(),
        state: shown.state(),
        envd_version: ENVD_VERSION.to_owned(),
    }
}

/// Whoever may only read is not told what opens the sandbox.
pub(super) fn detail(
    state: &AppState,
    caller: &Caller,
    (record, shown): (&SandboxRecord, Shown),
    address: &Address,
) -> rest::SandboxDetail {
    let traits = Traits::of(record);
    let may_use = caller.require(Scope::Use).is_ok();
    rest::SandboxDetail {
        listed: listed(record, shown),
        envd_access_token: may_use.then(|| tokens::access_token(&state.link_keys, &record.id)),
        domain: Some(address.domain()),
        allow_internet_access: traits.allow_internet_access,
        network: traits.network,
        lifecycle: rest::Lifecycle {
            auto_resume: traits.auto_resume,
            on_timeout: match record.on_expiry {
                OnExpiry::Delete => rest::OnTimeout::Kill,
                OnExpiry::Keep | OnExpiry::Pause => rest::OnTimeout::Pause,
            },
        },
        pause_mode: shown.pause_mode(),
    }
}

/// When its time is or was over; of a paused one, since when it is.
fn end_unix_ms(record: &SandboxRecord, shown: Shown) -> u64 {
    let since = match shown {
        Shown::Running => None,
        Shown::Paused => record.paused.as_ref().map(|paused| paused.since_unix_ms),
        Shown::PausedCold => record.death.as_ref().map(|death| death.at_unix_ms),
    };
    since.unwrap_or(record.deadline.unix_ms)
}

/// Whether a sandbox was made of what a client calls so.
pub(super) fn is_made_of(record: &SandboxRecord, name: &str) -> bool {
    let traits = Traits::of(record);
    traits.template_of(record) == name || traits.alias.as_deref() == Some(name)
}

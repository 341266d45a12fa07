use warren_core::{OnExpiry, SandboxRecord, Scope};
use warren_face::address::Address;
use warren_face::auth::Caller;
use warren_face::time;

use crate::annotation::Annotation;
use crate::shown::Shown;
use crate::state::E2b;
use crate::tokens;
use crate::{ENVD_VERSION, rest};

/// Clients carry it along and know nothing of it.
const CLIENT_ID: &str = "warren";

/// The answer to a client that made or found it.
pub(super) fn sandbox(state: &E2b, record: &SandboxRecord, address: &Address) -> rest::Sandbox {
    let (annotation, keys) = (Annotation::of(record), &state.link_keys);
    rest::Sandbox {
        template_id: annotation.template_of(record),
        sandbox_id: record.id.to_string(),
        client_id: CLIENT_ID.to_owned(),
        alias: annotation.alias,
        envd_version: ENVD_VERSION.to_owned(),
        envd_access_token: Some(tokens::access_token(keys, &record.id)),
        traffic_access_token: (!record.traffic.public).then(|| tokens::traffic_token(keys, &record.id)),
        domain: Some(address.domain()),
    }
}

pub(super) fn listed(record: &SandboxRecord, shown: Shown) -> rest::ListedSandbox {
    let (annotation, limits) = (Annotation::of(record), &record.spec.limits);
    rest::ListedSandbox {
        template_id: annotation.template_of(record),
        sandbox_id: record.id.to_string(),
        client_id: CLIENT_ID.to_owned(),
        alias: annotation.alias,
        started_at: time::rfc3339(record.created_unix_ms),
        end_at: time::rfc3339(end_unix_ms(record, shown)),
        cpu_count: u64::from(limits.cpus.milli().div_ceil(1000)),
        memory_mb: limits.memory.0 >> 20,
        disk_size_mb: limits.disk.0 >> 20,
        metadata: record.metadata.clone(),
        state: shown.state(),
        envd_version: ENVD_VERSION.to_owned(),
    }
}

/// A caller who may only read is not told the tokens.
pub(super) fn detail(
    state: &E2b,
    caller: &Caller,
    (record, shown): (&SandboxRecord, Shown),
    address: &Address,
) -> rest::SandboxDetail {
    let annotation = Annotation::of(record);
    let may_use = caller.require(Scope::Use).is_ok();
    rest::SandboxDetail {
        listed: listed(record, shown),
        envd_access_token: may_use.then(|| tokens::access_token(&state.link_keys, &record.id)),
        domain: Some(address.domain()),
        allow_internet_access: annotation.allow_internet_access,
        network: annotation.network,
        lifecycle: rest::Lifecycle {
            auto_resume: record.traffic.wake.is_some(),
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

/// True if a sandbox was made of the template that a client names.
pub(super) fn is_made_of(record: &SandboxRecord, name: &str) -> bool {
    let annotation = Annotation::of(record);
    annotation.template_of(record) == name || annotation.alias.as_deref() == Some(name)
}

use std::path::PathBuf;

use warren_core::{
    ByteSize, Cpus, Field, Limits, Mount, MountAccess, NetworkPolicy, RootImage, RootImageName, SandboxKind,
    SandboxSpec, SpecError, TemplateName, Timeouts, check_labels,
};
use warren_engine::{EngineError, NewSandbox, Settings};
use warren_face::error::{ApiError, name_of, parsed};
use warren_wire::api;

use super::network::network_policy;
use super::words::{automatic, on_expiry, profile, sandbox_kind, tier};

const LONGEST_BACKEND: usize = 63;

/// The parts of a body: the sandbox that it asks for, and its session.
#[derive(Debug)]
pub(crate) struct NewParts {
    pub(crate) sandbox: NewSandbox,
    pub(crate) backend: Option<String>,
    pub(crate) timeouts: Option<Timeouts>,
    pub(crate) client: Option<String>,
}

/// `at` is where the body stands in the request: empty, or such as `sandbox.`.
pub(crate) fn new_sandbox(
    body: api::CreateSandbox,
    at: &str,
    settings: &Settings,
) -> Result<NewParts, ApiError> {
    let kind = sandbox_kind(body.kind.unwrap_or_default());
    check_labels(&body.metadata).map_err(|reason| ApiError::invalid(format!("{at}metadata"), reason))?;
    let spec = SandboxSpec {
        template: template(body.template.as_deref(), at, settings, kind)?,
        image: image(&body, at)?,
        limits: limits(&body, at, settings)?,
        env: body.env,
        labels: body.labels,
        user: body.user,
        workdir: body.workdir.map(PathBuf::from),
        hostname: body.hostname,
        network: network(body.network, at, settings)?,
        mounts: body.mounts.into_iter().map(mount).collect(),
        profile: profile(body.profile.unwrap_or_default()),
    };
    spec.validate()
        .map_err(|error| ApiError::invalid(format!("{at}{}", spec_field(&error)), error.to_string()))?;
    Ok(NewParts {
        sandbox: NewSandbox {
            name: body.name.map(|name| parsed(format!("{at}name"), &name)).transpose()?,
            disk_limit_required: body.disk_mib.is_some(),
            kind,
            metadata: body.metadata,
            on_expiry: on_expiry(body.on_expiry.unwrap_or_default()),
            from: body.snapshot_id.map(|id| parsed(format!("{at}snapshot_id"), &id)).transpose()?,
            automatic: body.history.map(automatic),
            tier: body.tier.map(tier),
            ..NewSandbox::new(spec)
        },
        backend: body.backend.map(|name| checked_backend(name, at)).transpose()?,
        timeouts: body.timeouts.map(|times| timeouts(&times, settings)),
        client: body.client,
    })
}

fn template(
    name: Option<&str>,
    at: &str,
    settings: &Settings,
    kind: SandboxKind,
) -> Result<TemplateName, ApiError> {
    let Some(name) = name else { return Ok(settings.template_of(kind)) };
    parsed(format!("{at}template"), name)
}

/// The files of a sandbox start from one thing.
fn image(body: &api::CreateSandbox, at: &str) -> Result<Option<RootImage>, ApiError> {
    let Some(text) = &body.image else { return Ok(None) };
    if body.template.is_some() {
        let detail = "a sandbox starts from a template or from an image, not from both";
        return Err(ApiError::invalid(format!("{at}image"), detail));
    }
    parsed(format!("{at}image"), text).map(|name: RootImageName| Some(name.into()))
}

fn limits(body: &api::CreateSandbox, at: &str, settings: &Settings) -> Result<Limits, ApiError> {
    let mib = |count: u64| ByteSize(count.saturating_mul(1 << 20));
    let own = &settings.default_limits;
    let cpus = body.cpus.map(|cpus| cpus_of(cpus, at)).transpose()?;
    Ok(Limits {
        memory: body.memory_mib.map_or(own.memory, mib),
        cpus: cpus.unwrap_or(own.cpus),
        pids: body.pids.unwrap_or(own.pids),
        disk: body.disk_mib.map_or(own.disk, mib),
        inodes: body.inodes.unwrap_or(own.inodes),
        open_files: body.open_files.unwrap_or(own.open_files),
        lifetime_s: body.ttl_s.unwrap_or(own.lifetime_s),
    })
}

/// Rounded to thousandths.
fn cpus_of(cpus: f64, at: &str) -> Result<Cpus, ApiError> {
    let wrong = || ApiError::invalid(format!("{at}cpus"), "cpus must be between 0.01 and 1024");
    if !(0.01..=1024.0).contains(&cpus) {
        return Err(wrong());
    }
    format!("{cpus:.3}").parse().map_err(|_| wrong())
}

/// The name of the wrong field of a spec. A variable is named too.
fn spec_field(error: &SpecError) -> String {
    match error {
        SpecError::EnvValue { name } => format!("env.{name}"),
        error => name_of(&error.field()),
    }
}

/// A name that is no word is not looked for, nor repeated in the refusal.
pub(super) fn checked_backend(name: String, at: &str) -> Result<String, ApiError> {
    if (1..=LONGEST_BACKEND).contains(&name.chars().count()) {
        return Ok(name);
    }
    Err(ApiError::invalid(
        format!("{at}backend"),
        format!("a backend's name has 1 to {LONGEST_BACKEND} characters"),
    ))
}

/// Times that the engine checks.
pub(crate) fn timeouts(body: &api::TimeoutsRequest, settings: &Settings) -> Timeouts {
    let own = settings.timeouts;
    Timeouts {
        active_s: body.active_s.unwrap_or(own.active_s),
        detached_s: body.detached_s.unwrap_or(own.detached_s),
        suspended_s: body.suspended_s.unwrap_or(own.suspended_s),
    }
}

/// A refusal of the engine, where the fields of a new sandbox stand at this place of the request.
pub(crate) fn nested(error: EngineError, at: &str) -> ApiError {
    match error {
        EngineError::Invalid { field, wording } if field.is_of_new_sandbox() => {
            ApiError::of_field(&field, &wording, at)
        }
        EngineError::NothingFits { asked: Some(ref field @ (Field::WallTier | Field::Backend)), .. } => {
            let field = format!("{at}{}", name_of(field));
            ApiError::from(error).field(&field)
        }
        error => error.into(),
    }
}

fn mount(mount: api::Mount) -> Mount {
    let access = if mount.read_only { MountAccess::ReadOnly } else { MountAccess::ReadWrite };
    Mount { source: mount.source.into(), target: mount.target.into(), access }
}

/// Absent: as the server is configured.
fn network(
    body: Option<api::NetworkRequest>,
    at: &str,
    settings: &Settings,
) -> Result<NetworkPolicy, ApiError> {
    match body {
        Some(body) => network_policy(&body, &format!("{at}network"), &settings.network),
        None => Ok(settings.network.default.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of(body: api::CreateSandbox) -> Option<String> {
        new_sandbox(body, "sandbox.", &Settings::default()).err().and_then(|error| error.problem().field)
    }

    #[test]
    fn what_is_left_out_takes_the_servers_defaults() {
        let parts = new_sandbox(api::CreateSandbox::default(), "", &Settings::default()).unwrap();
        assert_eq!(parts.sandbox.spec.limits, Limits::default());
        assert_eq!(parts.sandbox.spec.template, TemplateName::host());
        assert!(!parts.sandbox.disk_limit_required && parts.timeouts.is_none());
    }

    #[test]
    fn each_wrong_value_is_named_as_the_caller_wrote_it() {
        type Spoil = fn(&mut api::CreateSandbox);
        let cases: [(&str, Spoil); 15] = [
            ("template", |b| b.template = Some("../etc".into())),
            ("image", |b| b.image = Some("../etc".into())),
            ("image", |b| (b.template, b.image) = (Some("host".into()), Some("busybox".into()))),
            ("name", |b| b.name = Some("sbxmine".into())),
            ("memory_mib", |b| b.memory_mib = Some(1)),
            ("memory_mib", |b| b.memory_mib = Some(u64::MAX)),
            ("cpus", |b| b.cpus = Some(f64::NAN)),
            ("cpus", |b| b.cpus = Some(-1.0)),
            ("pids", |b| b.pids = Some(0)),
            ("disk_mib", |b| b.disk_mib = Some(0)),
            ("ttl_s", |b| b.ttl_s = Some(0)),
            ("env.A", |b| drop(b.env.insert("A".into(), "\0".into()))),
            ("labels", |b| drop(b.labels.insert(String::new(), String::new()))),
            ("metadata", |b| drop(b.metadata.insert("a".into(), "x".repeat(5000)))),
            ("user", |b| b.user = Some("a b".into())),
        ];
        for (field, spoil) in cases {
            let mut body = api::CreateSandbox::default();
            spoil(&mut body);
            assert_eq!(field_of(body), Some(format!("sandbox.{field}")));
        }
    }

    #[test]
    fn processors_are_rounded_to_thousandths() {
        assert_eq!(cpus_of(1.5, "").unwrap(), Cpus::from_milli(1500));
        assert_eq!(cpus_of(0.333_333, "").unwrap(), Cpus::from_milli(333));
        assert_eq!(cpus_of(1024.0, "").unwrap(), Cpus::from_milli(1_024_000));
    }
}

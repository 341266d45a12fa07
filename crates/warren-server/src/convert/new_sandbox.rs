use std::collections::BTreeMap;
use std::path::PathBuf;

use warren_core::{
    ByteSize, Cpus, Limits, Mount, MountAccess, NetworkMode, OnExpiry, Profile, SandboxKind, SandboxSpec,
    SpecError, TemplateName, Timeouts,
};
use warren_engine::NewSandbox;
use warren_wire::api;

use super::defaults;
use crate::config::Config;
use crate::error::ApiError;

const MOST_ENTRIES: usize = 64;
const LONGEST_KEY: usize = 128;
const LONGEST_VALUE: usize = 4096;
const LONGEST_CLIENT: usize = 255;

/// What a body asks for, with what belongs to its session.
#[derive(Debug)]
pub(crate) struct NewParts {
    pub(crate) sandbox: NewSandbox,
    pub(crate) backend: Option<String>,
    pub(crate) timeouts: Option<Timeouts>,
    pub(crate) client: Option<String>,
}

/// `at` is where the body stands in the request: empty, or such as `sandbox.`.
pub(crate) fn new_sandbox(body: api::CreateSandbox, at: &str, config: &Config) -> Result<NewParts, ApiError> {
    let kind = sandbox_kind(body.kind.unwrap_or_default());
    checked_map(&body.metadata, &format!("{at}metadata"))?;
    let spec = SandboxSpec {
        template: template(body.template.as_deref(), at, config, kind)?,
        limits: limits(&body, at, config)?,
        env: body.env,
        labels: body.labels,
        user: body.user,
        workdir: body.workdir.map(PathBuf::from),
        hostname: body.hostname,
        network: network_mode(body.network.unwrap_or_default()),
        mounts: body.mounts.into_iter().map(mount).collect(),
        profile: profile(body.profile.unwrap_or_default()),
    };
    spec.validate()
        .map_err(|error| ApiError::invalid(format!("{at}{}", spec_field(&error)), error.to_string()))?;
    Ok(NewParts {
        sandbox: NewSandbox {
            spec,
            disk_limit_required: body.disk_mib.is_some(),
            kind,
            metadata: body.metadata,
            on_expiry: on_expiry(body.on_expiry.unwrap_or_default()),
        },
        backend: body.backend,
        timeouts: body.timeouts.map(|times| timeouts(&times, at, config)).transpose()?,
        client: body.client.map(|client| checked_client(client, &format!("{at}client"))).transpose()?,
    })
}

fn template(
    name: Option<&str>,
    at: &str,
    config: &Config,
    kind: SandboxKind,
) -> Result<TemplateName, ApiError> {
    let Some(name) = name else { return Ok(defaults::template(config, kind)) };
    name.parse().map_err(|error: warren_core::TemplateNameError| {
        ApiError::invalid(format!("{at}template"), error.to_string())
    })
}

fn limits(body: &api::CreateSandbox, at: &str, config: &Config) -> Result<Limits, ApiError> {
    let mib = |count: u64| ByteSize(count.saturating_mul(1 << 20));
    let own = defaults::limits(config);
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

/// The interface's name of what a spec calls otherwise.
fn spec_field(error: &SpecError) -> String {
    match error {
        SpecError::Limits(error) => match error.field {
            "memory" => "memory_mib".to_owned(),
            "disk" => "disk_mib".to_owned(),
            "lifetime_s" => "ttl_s".to_owned(),
            same => same.to_owned(),
        },
        SpecError::EnvValue { name } => format!("env.{name}"),
        SpecError::EnvName { .. } | SpecError::EnvTooLarge { .. } => "env".to_owned(),
        SpecError::Labels { .. } => "labels".to_owned(),
        SpecError::User { .. } => "user".to_owned(),
        SpecError::Hostname { .. } => "hostname".to_owned(),
        SpecError::Path { field, .. } => (*field).to_owned(),
        SpecError::MountTarget { .. } | SpecError::TooManyMounts { .. } => "mounts".to_owned(),
    }
}

pub(crate) fn timeouts(body: &api::TimeoutsRequest, at: &str, config: &Config) -> Result<Timeouts, ApiError> {
    const MOST: u64 = 366 * 86_400;
    let own = defaults::timeouts(config);
    let within = |name: &str, asked: Option<u64>, own: u64| match asked {
        None => Ok(own),
        Some(seconds) if (1..=MOST).contains(&seconds) => Ok(seconds),
        Some(_) => {
            let field = format!("{at}timeouts.{name}");
            Err(ApiError::invalid(field, format!("{name} must be between 1 and {MOST}")))
        }
    };
    Ok(Timeouts {
        active_s: within("active_s", body.active_s, own.active_s)?,
        detached_s: within("detached_s", body.detached_s, own.detached_s)?,
        suspended_s: within("suspended_s", body.suspended_s, own.suspended_s)?,
    })
}

/// Who uses a sandbox: a word for lists and logs.
pub(crate) fn checked_client(client: String, field: &str) -> Result<String, ApiError> {
    let valid =
        (1..=LONGEST_CLIENT).contains(&client.chars().count()) && !client.chars().any(char::is_control);
    if valid {
        return Ok(client);
    }
    Err(ApiError::invalid(
        field,
        format!("write 1 to {LONGEST_CLIENT} characters, none of them a control character"),
    ))
}

/// Labels of a session and metadata of anything: bounded, for they are in every answer.
pub(crate) fn checked_map(map: &BTreeMap<String, String>, field: &str) -> Result<(), ApiError> {
    if map.len() > MOST_ENTRIES {
        return Err(ApiError::invalid(
            field,
            format!("{} entries are more than the {MOST_ENTRIES} allowed", map.len()),
        ));
    }
    let fits = |(key, value): (&String, &String)| {
        (1..=LONGEST_KEY).contains(&key.len())
            && value.len() <= LONGEST_VALUE
            && !key.chars().any(char::is_control)
    };
    if map.iter().all(fits) {
        return Ok(());
    }
    let detail = format!(
        "a key takes 1 to {LONGEST_KEY} bytes and no control characters, a value at most {LONGEST_VALUE} bytes"
    );
    Err(ApiError::invalid(field, detail))
}

fn mount(mount: api::Mount) -> Mount {
    let access = if mount.read_only { MountAccess::ReadOnly } else { MountAccess::ReadWrite };
    Mount { source: mount.source.into(), target: mount.target.into(), access }
}

pub(super) fn sandbox_kind(kind: api::SandboxType) -> SandboxKind {
    match kind {
        api::SandboxType::Terminal => SandboxKind::Terminal,
        api::SandboxType::Research => SandboxKind::Research,
    }
}

fn network_mode(network: api::Network) -> NetworkMode {
    match network {
        api::Network::None => NetworkMode::None,
        api::Network::Public => NetworkMode::Public,
    }
}

fn profile(profile: api::Profile) -> Profile {
    match profile {
        api::Profile::Standard => Profile::Standard,
        api::Profile::Strict => Profile::Strict,
    }
}

pub(super) fn on_expiry(on_expiry: api::OnExpiry) -> OnExpiry {
    match on_expiry {
        api::OnExpiry::Keep => OnExpiry::Keep,
        api::OnExpiry::Delete => OnExpiry::Delete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of(body: api::CreateSandbox) -> Option<String> {
        new_sandbox(body, "sandbox.", &Config::default()).err().and_then(|error| error.problem().field)
    }

    #[test]
    fn what_is_left_out_takes_the_servers_defaults() {
        let parts = new_sandbox(api::CreateSandbox::default(), "", &Config::default()).unwrap();
        assert_eq!(parts.sandbox.spec.limits, Limits::default());
        assert_eq!(parts.sandbox.spec.template, TemplateName::host());
        assert!(!parts.sandbox.disk_limit_required && parts.timeouts.is_none());
    }

    #[test]
    fn each_wrong_value_is_named_as_the_caller_wrote_it() {
        type Spoil = fn(&mut api::CreateSandbox);
        let cases: [(&str, Spoil); 14] = [
            ("template", |b| b.template = Some("../etc".into())),
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
            ("client", |b| b.client = Some("\n".into())),
            ("timeouts.active_s", |b| {
                b.timeouts = Some(api::TimeoutsRequest { active_s: Some(0), ..Default::default() });
            }),
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

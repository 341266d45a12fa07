use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::field::Field;
use crate::id::TemplateName;
use crate::limits::{Limits, LimitsError};
use crate::network::NetworkPolicy;
use crate::root_image::RootImage;

/// The wishes for a new sandbox. Every value comes from a tenant, so nothing is taken on trust:
/// [`SandboxSpec::validate`] is called before anything is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxSpec {
    /// Not used with an image.
    pub template: TemplateName,
    /// The image of the backend's own that it starts from, instead of a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<RootImage>,
    #[serde(default)]
    pub limits: Limits,
    /// Variables of every process, on top of the template's.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// A user of the template, by name or `uid[:gid]`. Absent: the template's default.
    #[serde(default)]
    pub user: Option<String>,
    /// Absent: the template's default.
    #[serde(default)]
    pub workdir: Option<PathBuf>,
    #[serde(default)]
    pub hostname: Option<String>,
    /// Checked where the operator's exceptions are known, see [`NetworkPolicy::validate`].
    #[serde(default)]
    pub network: NetworkPolicy,
    #[serde(default)]
    pub mounts: Vec<Mount>,
    #[serde(default)]
    pub profile: Profile,
}

/// The files that are below everything a sandbox writes. What was written on one base has nothing
/// to do with what was written on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base<'a> {
    Template(&'a TemplateName),
    Image(&'a RootImage),
}

impl Base<'_> {
    /// The name alone.
    pub fn name(&self) -> &str {
        match self {
            Self::Template(name) => name.as_str(),
            Self::Image(image) => image.name.as_str(),
        }
    }
}

impl fmt::Display for Base<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(name) => write!(f, "the template `{name}`"),
            Self::Image(RootImage { name, digest: Some(digest) }) => {
                write!(f, "the image `{name}` ({digest})")
            }
            Self::Image(image) => write!(f, "the image `{image}`"),
        }
    }
}

/// The purpose of a sandbox: a template and defaults under one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    #[default]
    Terminal,
    /// Pages are found and read.
    Research,
    /// A browser that agents drive by Playwright's MCP server.
    PlaywrightMcp,
}

impl SandboxKind {
    /// True if a browser is started in it.
    pub fn has_browser(self) -> bool {
        match self {
            Self::Terminal => false,
            Self::Research | Self::PlaywrightMcp => true,
        }
    }

    /// True if it is not ready before its browser is.
    pub fn waits_for_browser(self) -> bool {
        self == Self::PlaywrightMcp
    }
}

/// How much of the kernel a sandbox may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Ordinary development work, debuggers included.
    #[default]
    Standard,
    /// Also without ptrace, process_vm access, modify_ldt, splice and vmsplice.
    Strict,
}

/// A host directory or file given to the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    pub source: PathBuf,
    pub target: PathBuf,
    #[serde(default)]
    pub access: MountAccess,
}

/// The access that a sandbox has to a mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountAccess {
    #[default]
    ReadWrite,
    ReadOnly,
}

/// A spec is not acceptable; the text names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("limits.{0}")]
    Limits(LimitsError),
    #[error("env: `{name}` is not a variable name: it must not be empty or contain `=` or NUL")]
    EnvName { name: String },
    #[error("env.{name}: the value contains a NUL byte")]
    EnvValue { name: String },
    #[error("env: {bytes} bytes of variables are more than the {most} allowed")]
    EnvTooLarge { bytes: usize, most: usize },
    #[error("labels: {reason}")]
    Labels { reason: &'static str },
    #[error("user: `{user}` is not a user: write a name, a uid or uid:gid")]
    User { user: String },
    #[error("hostname: `{hostname}` is not a host name: write letters, digits and inner dashes, 63 at most")]
    Hostname { hostname: String },
    #[error("{field}: `{path}` must be an absolute path without `..` or NUL, 4095 bytes at most")]
    Path { field: Field, path: String },
    #[error("mounts: `{target}` cannot be a mount point: {reason}")]
    MountTarget { target: String, reason: &'static str },
    #[error("mounts: {count} are more than the {most} allowed")]
    TooManyMounts { count: usize, most: usize },
}

impl SpecError {
    /// The part of the spec that is wrong.
    pub fn field(&self) -> Field {
        match self {
            Self::Limits(error) => error.field.clone(),
            Self::EnvName { .. } | Self::EnvValue { .. } | Self::EnvTooLarge { .. } => Field::Env,
            Self::Labels { .. } => Field::Labels,
            Self::User { .. } => Field::User,
            Self::Hostname { .. } => Field::Hostname,
            Self::Path { field, .. } => field.clone(),
            Self::MountTarget { .. } | Self::TooManyMounts { .. } => Field::Mounts,
        }
    }
}

const MOST_ENV_BYTES: usize = 512 * 1024;
const MOST_LABELS: usize = 64;
const MOST_MOUNTS: usize = 64;

impl SandboxSpec {
    /// A sandbox of this template with every default.
    pub fn new(template: TemplateName) -> Self {
        Self {
            template,
            image: None,
            limits: Limits::default(),
            env: BTreeMap::new(),
            labels: BTreeMap::new(),
            user: None,
            workdir: None,
            hostname: None,
            network: NetworkPolicy::default(),
            mounts: Vec::new(),
            profile: Profile::default(),
        }
    }

    pub fn base(&self) -> Base<'_> {
        self.image.as_ref().map_or(Base::Template(&self.template), Base::Image)
    }

    /// The template that it stands on; `None` with an image.
    pub fn used_template(&self) -> Option<&TemplateName> {
        self.image.is_none().then_some(&self.template)
    }

    pub fn validate(&self) -> Result<(), SpecError> {
        self.limits.validate().map_err(SpecError::Limits)?;
        self.validate_env()?;
        check_labels(&self.labels).map_err(|reason| SpecError::Labels { reason })?;
        self.user.as_deref().map_or(Ok(()), validate_user)?;
        self.hostname.as_deref().map_or(Ok(()), validate_hostname)?;
        self.workdir.as_deref().map_or(Ok(()), |path| validate_path(Field::Workdir, path))?;
        self.validate_mounts()
    }

    fn validate_env(&self) -> Result<(), SpecError> {
        let mut bytes = 0;
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(SpecError::EnvName { name: name.escape_default().to_string() });
            }
            if value.contains('\0') {
                return Err(SpecError::EnvValue { name: name.clone() });
            }
            bytes += name.len() + value.len() + 2;
        }
        if bytes > MOST_ENV_BYTES {
            Err(SpecError::EnvTooLarge { bytes, most: MOST_ENV_BYTES })
        } else {
            Ok(())
        }
    }

    fn validate_mounts(&self) -> Result<(), SpecError> {
        if self.mounts.len() > MOST_MOUNTS {
            return Err(SpecError::TooManyMounts { count: self.mounts.len(), most: MOST_MOUNTS });
        }
        self.mounts.iter().try_for_each(|mount| {
            validate_path(Field::MountSource, &mount.source)?;
            validate_path(Field::MountTarget, &mount.target)?;
            validate_target(&mount.target)
        })
    }
}

/// Checks labels and the like: at most 64 pairs of short, printable text. The error names the
/// fault.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), &'static str> {
    if labels.len() > MOST_LABELS {
        return Err("more than 64 labels");
    }
    for (key, value) in labels {
        if key.is_empty() || key.len() > 128 || value.len() > 1024 {
            return Err("a key takes 1 to 128 bytes and a value at most 1024");
        }
        if key.chars().chain(value.chars()).any(char::is_control) {
            return Err("control characters are not allowed");
        }
    }
    Ok(())
}

/// The sandbox's own file systems are never covered by a mount of the user's.
fn validate_target(target: &Path) -> Result<(), SpecError> {
    let refuse = |reason| Err(SpecError::MountTarget { target: target.display().to_string(), reason });
    if target == Path::new("/") {
        return refuse("it is the root itself");
    }
    if ["/proc", "/dev", "/sys"].iter().any(|own| target.starts_with(own)) {
        return refuse("it belongs to the sandbox's own system directories");
    }
    Ok(())
}

fn validate_path(field: Field, path: &Path) -> Result<(), SpecError> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain && !bytes.contains(&0) && bytes.len() <= 4095 {
        return Ok(());
    }
    Err(SpecError::Path { field, path: path.display().to_string().escape_default().take(200).collect() })
}

fn validate_user(user: &str) -> Result<(), SpecError> {
    let word = |part: &str| {
        (1..=64).contains(&part.len())
            && !part.starts_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.$".contains(&byte))
    };
    let mut parts = user.splitn(2, ':');
    if parts.all(word) {
        Ok(())
    } else {
        Err(SpecError::User { user: user.escape_default().take(80).collect() })
    }
}

fn validate_hostname(hostname: &str) -> Result<(), SpecError> {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let valid = hostname.len() <= 63
        && edge(hostname.bytes().next())
        && edge(hostname.bytes().next_back())
        && hostname.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if valid {
        Ok(())
    } else {
        Err(SpecError::Hostname { hostname: hostname.escape_default().take(80).collect() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec() -> SandboxSpec {
        SandboxSpec::new(TemplateName::host())
    }

    fn mount(target: &str) -> Mount {
        Mount { source: "/srv".into(), target: target.into(), access: MountAccess::ReadWrite }
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(spec().validate(), Ok(()));
    }

    #[test]
    fn each_wrong_field_is_named() {
        type Spoil = fn(&mut SandboxSpec);
        let cases: [(&str, Spoil); 12] = [
            ("limits.pids", |s| s.limits.pids = 0),
            ("env:", |s| drop(s.env.insert("A=B".into(), String::new()))),
            ("env.A:", |s| drop(s.env.insert("A".into(), "\0".into()))),
            ("env:", |s| drop(s.env.insert("A".into(), "x".repeat(1 << 20)))),
            ("labels:", |s| drop(s.labels.insert("a\n".into(), String::new()))),
            ("user:", |s| s.user = Some("root user".into())),
            ("user:", |s| s.user = Some("0:".into())),
            ("hostname:", |s| s.hostname = Some("-x".into())),
            ("workdir:", |s| s.workdir = Some("relative".into())),
            ("mounts.target:", |s| s.mounts = vec![mount("/a/../b")]),
            ("mounts:", |s| s.mounts = vec![mount("/proc/self")]),
            ("mounts:", |s| s.mounts = vec![mount("/x"); 65]),
        ];
        for (field, spoil) in cases {
            let mut spec = spec();
            spoil(&mut spec);
            let text = spec.validate().unwrap_err().to_string();
            assert!(text.starts_with(field), "{text}");
        }
    }

    #[test]
    fn a_spec_without_an_image_is_written_as_before() {
        let text = serde_json::to_string(&spec()).unwrap();
        assert!(!text.contains("image"), "{text}");
        let image: RootImage = "busybox".parse::<crate::RootImageName>().unwrap().into();
        let with = SandboxSpec { image: Some(image), ..spec() };
        let text = serde_json::to_string(&with).unwrap();
        assert_eq!(serde_json::from_str::<SandboxSpec>(&text).unwrap(), with);
    }

    #[test]
    fn unknown_fields_are_refused() {
        let text = r#"{"template": "host", "privileged": true}"#;
        assert!(serde_json::from_str::<SandboxSpec>(text).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_validation_panic(text: String) {
            let mut spec = spec();
            spec.user = Some(text.clone());
            spec.hostname = Some(text.clone());
            spec.workdir = Some(text.clone().into());
            spec.env.insert(text.clone(), text.clone());
            spec.mounts = vec![mount(&text)];
            drop(spec.validate());
        }
    }
}

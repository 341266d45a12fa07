//! `template.json`: what is known of a template. It is written once, before the template appears
//! under its name, and checked on every read, because a later version of Warren or a person may
//! have changed it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::name::TemplateName;

/// The newest format that is read. That of a template on its own is 1; one that stands on another
/// has 2, so that an older Warren refuses it by its number.
const FORMAT: u32 = 2;
const FILE_NAME: &str = "template.json";
const MAX_BYTES: u64 = 4 << 20;
const MAX_ENV: usize = 1024;
const MAX_COMMAND: usize = 1024;
const MAX_TEXT: usize = 128 << 10;
const MAX_CONFIG: usize = 1 << 20;
const MAX_USER: usize = 256;
const MAX_PATH: usize = 4096;

/// The facts about a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this file's own layout.
    pub format: u32,
    /// The name it was imported under.
    pub name: TemplateName,
    /// Identifies the content: of an image its own digest, of a root filesystem archive the digest
    /// of its bytes, of a directory the digest of its listing, of `host` the fingerprint of the
    /// machine.
    pub digest: Digest,
    /// When it was made, in seconds since 1970.
    pub created_unix: u64,
    /// The kind of its source.
    pub source: SourceKind,
    /// Space its tree takes on disk.
    pub size_bytes: u64,
    /// Files, directories and links in its tree.
    pub entries: u64,
    /// How its processes start unless asked otherwise.
    pub config: TemplateConfig,
    /// The template whose trees it stands on. It then has a layer instead of a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<TemplateName>,
}

/// The source of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// The machine's own `/usr`.
    Host,
    /// A directory, copied.
    Directory,
    /// An archive of a root filesystem.
    Rootfs,
    /// An OCI image layout.
    OciImage,
    /// The output of `docker save`.
    DockerImage,
    /// The state of a sandbox at some moment.
    Snapshot,
}

/// How a template's processes start unless the caller says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateConfig {
    /// `NAME=value` each.
    pub env: Vec<String>,
    /// Name or number, optionally `:group`, looked up inside the sandbox.
    pub user: String,
    /// Absolute path inside.
    #[serde(alias = "cwd")]
    pub workdir: String,
    /// Entry point and arguments; empty where the template names none.
    pub command: Vec<String>,
}

/// A template's configuration holds something no process could be started with.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("environment entry `{entry}` is not NAME=value")]
    Env { entry: String },
    #[error("argument {index} of the command holds a NUL byte or is longer than 128 KiB")]
    Command { index: usize },
    #[error("user `{user}` is not a name or number")]
    User { user: String },
    #[error("working directory `{workdir}` is not an absolute path")]
    Workdir { workdir: String },
    #[error("the configuration is too large: at most 1024 variables, 1024 arguments and 1 MiB in all")]
    TooLarge,
}

/// The words for who names a template that is not there.
fn remedy(name: &TemplateName) -> String {
    match name.as_str() {
        "base" | "browser" | "code-interpreter" => format!("`warren template build {name}` makes it"),
        _ => "pull or import it first, or use `host`".to_owned(),
    }
}

/// A template could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("there is no template `{name}`: {}", remedy(name))]
    NotFound { name: TemplateName },
    #[error("prepare the built-in template `host`")]
    Host(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` is damaged: remove the template and import it again", path.display())]
    Malformed { path: PathBuf, source: serde_json::Error },
    #[error("`{}` is damaged, being larger than 4 MiB: remove the template and import it again", path.display())]
    TooLarge { path: PathBuf },
    #[error(
        "`{}` has format {format} and this version of Warren reads up to {FORMAT}: use a newer Warren",
        path.display()
    )]
    NewerFormat { path: PathBuf, format: u32 },
    #[error("`{}` is the manifest of `{found}`: was the directory renamed?", path.display())]
    OtherName { path: PathBuf, found: TemplateName },
    #[error("`{}` holds an unusable configuration", path.display())]
    Config { path: PathBuf, source: ConfigError },
    #[error("template `{name}` stands on `{base}`, which cannot be used")]
    Base { name: TemplateName, base: TemplateName, source: Box<ReadError> },
    #[error("template `{name}` stands on too many others, one upon the other")]
    TooManyBases { name: TemplateName },
    #[error("list templates in `{}`", path.display())]
    List { path: PathBuf, source: io::Error },
}

/// A manifest could not be written.
#[derive(Debug, thiserror::Error)]
#[error("write `{}`", path.display())]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

/// The field that every version of the file has, read first so that a newer one is refused by its
/// number and not by its fields.
#[derive(Deserialize)]
struct Versioned {
    format: u32,
}

impl Manifest {
    pub(crate) const FORMAT: u32 = 1;
    pub(crate) const FORMAT_WITH_BASE: u32 = 2;

    pub(crate) fn read(directory: &Path, name: &TemplateName) -> Result<Self, ReadError> {
        let path = directory.join(FILE_NAME);
        let text = match read_bounded(&path) {
            Ok(Some(text)) => text,
            Ok(None) => return Err(ReadError::TooLarge { path }),
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                return Err(ReadError::NotFound { name: name.clone() });
            }
            Err(source) => return Err(ReadError::Read { path, source }),
        };
        let malformed = |source| ReadError::Malformed { path: path.clone(), source };
        let version: Versioned = serde_json::from_slice(&text).map_err(malformed)?;
        if version.format > FORMAT {
            return Err(ReadError::NewerFormat { path, format: version.format });
        }
        let manifest: Self = serde_json::from_slice(&text).map_err(malformed)?;
        if manifest.name != *name {
            return Err(ReadError::OtherName { path, found: manifest.name });
        }
        match manifest.config.check() {
            Ok(()) => Ok(manifest),
            Err(source) => Err(ReadError::Config { path, source }),
        }
    }

    pub(crate) fn write(&self, directory: &Path) -> Result<(), WriteError> {
        let path = directory.join(FILE_NAME);
        let write = || {
            let text = serde_json::to_vec_pretty(self)?;
            File::create_new(&path)?.write_all(&text)
        };
        write().map_err(|source| WriteError { path: path.clone(), source })
    }
}

impl Default for TemplateConfig {
    fn default() -> Self {
        Self {
            env: vec!["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()],
            user: "root".to_owned(),
            workdir: "/".to_owned(),
            command: Vec::new(),
        }
    }
}

impl TemplateConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let texts = self.env.iter().chain(&self.command);
        if self.env.len() > MAX_ENV
            || self.command.len() > MAX_COMMAND
            || texts.map(String::len).fold(0, usize::saturating_add) > MAX_CONFIG
        {
            return Err(ConfigError::TooLarge);
        }
        if let Some(entry) = self.env.iter().find(|entry| !is_assignment(entry)) {
            return Err(ConfigError::Env { entry: excerpt(entry) });
        }
        let passable = |text: &String| text.len() <= MAX_TEXT && !text.contains('\0');
        if let Some(index) = self.command.iter().position(|argument| !passable(argument)) {
            return Err(ConfigError::Command { index });
        }
        if self.user.is_empty() || self.user.len() > MAX_USER || self.user.contains(is_control_or_space) {
            return Err(ConfigError::User { user: excerpt(&self.user) });
        }
        if !self.workdir.starts_with('/') || self.workdir.len() >= MAX_PATH || self.workdir.contains('\0') {
            return Err(ConfigError::Workdir { workdir: excerpt(&self.workdir) });
        }
        Ok(())
    }
}

fn is_assignment(entry: &str) -> bool {
    entry.len() <= MAX_TEXT
        && !entry.contains('\0')
        && entry.split_once('=').is_some_and(|(name, _)| !name.is_empty())
}

fn is_control_or_space(character: char) -> bool {
    character.is_control() || character.is_whitespace()
}

fn excerpt(text: &str) -> String {
    text.escape_debug().take(80).collect()
}

fn read_bounded(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    Ok((text.len() as u64 <= MAX_BYTES).then_some(text))
}

//! What a build does, one step after the other, as its client wrote it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};
use warren_e2b::rest::templates as rest;

use crate::e2b::control::E2bError;

/// Steps of one build.
const MOST_STEPS: usize = 500;
/// Letters of a command, a path or a variable.
const LONGEST_WORD: usize = 128 << 10;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Copy(Copy),
    Run { command: String, user: Option<String> },
    Env(Vec<(String, String)>),
    Workdir(String),
    User { name: String, sudo: bool },
}

/// Files of the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Copy {
    /// Which of those that were sent; may be a pattern.
    pub(super) source: String,
    pub(super) target: String,
    /// Absent: the user of the build.
    pub(super) owner: Option<String>,
    /// In octal digits. Absent: as they are.
    pub(super) mode: Option<String>,
    /// Under which they were sent.
    pub(super) hash: String,
}

/// A step with what is needed to find its outcome again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbered {
    /// From 1.
    pub(super) number: usize,
    pub(super) step: Step,
    /// Of this step and all before it.
    pub(super) key: String,
    /// An earlier outcome is not to be used, neither of this step nor of those after it.
    pub(super) force: bool,
}

/// Reads a build's steps. `base` says what they are done on top of.
pub(super) fn read(steps: &[rest::Step], base: &str) -> Result<Vec<Numbered>, E2bError> {
    if steps.len() > MOST_STEPS {
        return Err(E2bError::bad_request(format!("steps: a build has up to {MOST_STEPS} steps")));
    }
    let mut key = digest(&["base", base]);
    let mut numbered = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        let read = Step::read(step).map_err(|why| E2bError::bad_request(format!("steps[{index}]: {why}")))?;
        let args = step.args.as_deref().unwrap_or_default();
        let mut parts =
            vec![key.as_str(), step.kind.as_str(), step.files_hash.as_deref().unwrap_or_default()];
        parts.extend(args.iter().map(String::as_str));
        key = digest(&parts);
        numbered.push(Numbered {
            number: index + 1,
            step: read,
            key: key.clone(),
            force: step.force.unwrap_or_default(),
        });
    }
    Ok(numbered)
}

/// Each part is counted, so that no two lists of parts are the same text.
fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Step {
    fn read(step: &rest::Step) -> Result<Self, String> {
        let args = step.args.as_deref().unwrap_or_default();
        if args.iter().any(|arg| arg.len() > LONGEST_WORD || arg.contains('\0')) {
            return Err(format!("an argument is longer than {LONGEST_WORD} bytes, or has a NUL byte"));
        }
        let at = |place: usize| args.get(place).filter(|arg| !arg.is_empty()).cloned();
        let need = |place: usize, what: &str| at(place).ok_or_else(|| format!("{} needs {what}", step.kind));
        match step.kind.to_ascii_uppercase().as_str() {
            "COPY" => Ok(Self::Copy(Copy {
                source: need(0, "a source")?,
                target: need(1, "a target")?,
                owner: at(2).map(checked_owner).transpose()?,
                mode: at(3).map(checked_mode).transpose()?,
                hash: checked_hash(step.files_hash.as_deref())?,
            })),
            "RUN" => Ok(Self::Run { command: need(0, "a command")?, user: at(1) }),
            "ENV" => variables(args).map(Self::Env),
            "WORKDIR" => need(0, "a path").map(Self::Workdir),
            "USER" => Ok(Self::User {
                name: checked_user(need(0, "a name")?)?,
                sudo: at(1).is_some_and(|flag| flag == "true"),
            }),
            other => Err(format!("there is no step `{}`: use COPY, RUN, ENV, WORKDIR or USER", short(other))),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copy(copy) => write!(f, "COPY {} {}", copy.source, copy.target),
            Self::Run { command, .. } => write!(f, "RUN {command}"),
            Self::Env(pairs) => {
                let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
                write!(f, "ENV {}", names.join(" "))
            }
            Self::Workdir(path) => write!(f, "WORKDIR {path}"),
            Self::User { name, .. } => write!(f, "USER {name}"),
        }
    }
}

fn variables(args: &[String]) -> Result<Vec<(String, String)>, String> {
    if args.is_empty() || !args.len().is_multiple_of(2) {
        return Err("ENV needs names and values, one after the other".to_owned());
    }
    let pairs = args.chunks(2).map(|pair| match pair {
        [name, value] if is_variable(name) => Ok((name.clone(), value.clone())),
        [name, ..] => Err(format!("`{}` is not the name of a variable", short(name))),
        [] => Err("ENV needs a name".to_owned()),
    });
    pairs.collect()
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && name.len() <= 1024
}

fn checked_hash(hash: Option<&str>) -> Result<String, String> {
    let hash = hash.ok_or("COPY needs a filesHash")?;
    if is_hash(hash) {
        Ok(hash.to_owned())
    } else {
        Err("filesHash: 64 hexadecimal digits, in lower case".to_owned())
    }
}

/// Whether it can be the name of files that were sent.
pub(super) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn checked_user(name: String) -> Result<String, String> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    if first && rest && name.len() <= 32 {
        Ok(name)
    } else {
        Err(format!("`{}` is not a user's name", short(&name)))
    }
}

/// `user`, `user:group`, or numbers.
fn checked_owner(owner: String) -> Result<String, String> {
    let word = |part: &str| {
        (1..=32).contains(&part.len())
            && !part.starts_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    if owner.splitn(2, ':').all(word) {
        Ok(owner)
    } else {
        Err(format!("`{}` is not an owner", short(&owner)))
    }
}

fn checked_mode(mode: String) -> Result<String, String> {
    let octal = (1..=5).contains(&mode.len()) && mode.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    if octal {
        Ok(mode)
    } else {
        Err(format!("`{}` is not a mode: write octal digits, such as 644", short(&mode)))
    }
}

fn short(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_default).collect()
}

/// Puts the values of variables in their places: `$NAME` and `${NAME}`; `\$` is a dollar sign. One that is not known is empty. Nothing
/// is run.
pub(super) fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(['$', '\\']) {
        out.push_str(&rest[..place]);
        rest = &rest[place..];
        if let Some(after) = rest.strip_prefix("\\$") {
            out.push('$');
            rest = after;
            continue;
        }
        match variable(rest) {
            Some((name, after)) => {
                out.push_str(env.get(name).map(String::as_str).unwrap_or_default());
                rest = after;
            }
            None => {
                let mut letters = rest.chars();
                out.extend(letters.next());
                rest = letters.as_str();
            }
        }
    }
    out.push_str(rest);
    out
}

/// A variable at the beginning of a text, and what comes after it.
fn variable(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('$')?;
    let is_name = |name: &str| {
        name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if let Some(inner) = text.strip_prefix('{') {
        return inner.split_once('}').filter(|(name, _)| is_name(name));
    }
    let end =
        text.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    is_name(name).then_some((name, after))
}

/// A path as seen from a directory, without `.` and `..`. What ended with a slash still does.
pub(super) fn from_directory(path: &str, directory: &Path) -> String {
    let joined = directory.join(path);
    let mut plain = PathBuf::from("/");
    for part in joined.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    let directory = path.ends_with('/') || path == "." || path.ends_with("/.");
    let text = plain.to_string_lossy().into_owned();
    if directory && text != "/" { text + "/" } else { text }
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;

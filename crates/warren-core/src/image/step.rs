use std::fmt;

use super::files::FilesHash;
use crate::text::shorten;

/// The most bytes of a command, a path or a variable.
const LONGEST_WORD: usize = 128 << 10;

/// One step of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildStep {
    Copy(CopyFiles),
    Run { command: String, user: Option<String> },
    Env(Vec<(String, String)>),
    Workdir(String),
    User { name: String, sudo: bool },
}

/// Files of the client that are put in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFiles {
    /// The files among those that were sent; may be a pattern.
    pub source: String,
    pub target: String,
    /// Absent: the user of the build.
    pub owner: Option<String>,
    /// In octal digits. Absent: as they are.
    pub mode: Option<String>,
    /// The name under which they were sent.
    pub hash: FilesHash,
}

/// A step that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildStepError {
    #[error("an argument is longer than {LONGEST_WORD} bytes, or has a NUL byte")]
    Word,
    #[error("`{name}` is not the name of a variable")]
    Variable { name: String },
    #[error("`{name}` is not a user's name")]
    User { name: String },
    #[error("`{owner}` is not an owner")]
    Owner { owner: String },
    #[error("`{mode}` is not a mode: write octal digits, such as 644")]
    Mode { mode: String },
}

impl BuildStep {
    pub fn validate(&self) -> Result<(), BuildStepError> {
        if self.words().iter().any(|word| word.len() > LONGEST_WORD || word.contains('\0')) {
            return Err(BuildStepError::Word);
        }
        match self {
            Self::Copy(copy) => {
                copy.owner.as_deref().map_or(Ok(()), check_owner)?;
                copy.mode.as_deref().map_or(Ok(()), check_mode)
            }
            Self::Env(pairs) => pairs.iter().try_for_each(|(name, _)| check_variable(name)),
            Self::User { name, .. } => check_user(name),
            Self::Run { .. } | Self::Workdir(_) => Ok(()),
        }
    }

    /// All that says what it does, the kind of step first. Two steps with the same words do the
    /// same.
    pub fn words(&self) -> Vec<&str> {
        match self {
            Self::Copy(CopyFiles { source, target, owner, mode, hash }) => vec![
                "COPY",
                hash.as_str(),
                source.as_str(),
                target.as_str(),
                owner.as_deref().unwrap_or_default(),
                mode.as_deref().unwrap_or_default(),
            ],
            Self::Run { command, user } => vec!["RUN", command.as_str(), user.as_deref().unwrap_or_default()],
            Self::Env(pairs) => {
                let pairs = pairs.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
                std::iter::once("ENV").chain(pairs).collect()
            }
            Self::Workdir(path) => vec!["WORKDIR", path.as_str()],
            Self::User { name, sudo } => vec!["USER", name.as_str(), if *sudo { "sudo" } else { "" }],
        }
    }
}

impl fmt::Display for BuildStep {
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

fn check_variable(name: &str) -> Result<(), BuildStepError> {
    if !name.is_empty() && !name.contains('=') && name.len() <= 1024 {
        return Ok(());
    }
    Err(BuildStepError::Variable { name: shorten(name) })
}

fn check_user(name: &str) -> Result<(), BuildStepError> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if first && name.len() <= 32 && name.bytes().all(is_part_of_a_name) {
        return Ok(());
    }
    Err(BuildStepError::User { name: shorten(name) })
}

/// `user`, `user:group`, or numbers.
fn check_owner(owner: &str) -> Result<(), BuildStepError> {
    let word = |part: &str| {
        (1..=32).contains(&part.len()) && !part.starts_with('-') && part.bytes().all(is_part_of_a_name)
    };
    if owner.splitn(2, ':').all(word) {
        return Ok(());
    }
    Err(BuildStepError::Owner { owner: shorten(owner) })
}

fn is_part_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

fn check_mode(mode: &str) -> Result<(), BuildStepError> {
    if (1..=5).contains(&mode.len()) && mode.bytes().all(|byte| matches!(byte, b'0'..=b'7')) {
        return Ok(());
    }
    Err(BuildStepError::Mode { mode: shorten(mode) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str) -> BuildStep {
        BuildStep::Run { command: command.to_owned(), user: None }
    }

    fn user(name: &str) -> BuildStep {
        BuildStep::User { name: name.to_owned(), sudo: false }
    }

    fn copy(owner: Option<&str>, mode: Option<&str>) -> BuildStep {
        BuildStep::Copy(CopyFiles {
            source: "src".to_owned(),
            target: "dst".to_owned(),
            owner: owner.map(str::to_owned),
            mode: mode.map(str::to_owned),
            hash: "a".repeat(64).parse().unwrap(),
        })
    }

    #[test]
    fn a_step_that_cannot_be_done_says_why() {
        let cases = [
            (BuildStep::Env(vec![("A=B".to_owned(), "1".to_owned())]), "not the name of a variable"),
            (user("a b"), "not a user's name"),
            (user("-x"), "not a user's name"),
            (copy(Some("x;y"), None), "not an owner"),
            (copy(None, Some("u+x")), "not a mode"),
            (run("a\0b"), "NUL"),
            (run(&"x".repeat(LONGEST_WORD + 1)), "longer"),
        ];
        for (step, why) in cases {
            let error = step.validate().unwrap_err().to_string();
            assert!(error.contains(why), "{step:?}: {error}");
        }
        for step in [run("ls"), user("bob"), copy(Some("bob:staff"), Some("0755"))] {
            assert_eq!(step.validate(), Ok(()), "{step:?}");
        }
    }

    #[test]
    fn files_are_named_by_digits_alone() {
        assert!("../../etc".parse::<FilesHash>().is_err());
        assert!("A".repeat(64).parse::<FilesHash>().is_err());
        assert!("a1".repeat(32).parse::<FilesHash>().is_ok());
    }

    #[test]
    fn a_step_is_shown_without_the_values_of_its_variables() {
        let pairs = [("A", "1"), ("B", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(BuildStep::Env(pairs.to_vec()).to_string(), "ENV A B");
        assert_eq!(copy(None, None).to_string(), "COPY src dst");
    }
}

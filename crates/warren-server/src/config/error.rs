use std::fmt;
use std::path::PathBuf;

/// Where a value came from, in words that lead to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File {
        path: PathBuf,
        /// Absent where the file is written in a way that hides it.
        line: Option<usize>,
    },
    Environment(String),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Self::File { path, line: None } => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "${name}"),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("read the configuration `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("read the configuration `{}`", path.display())]
    Syntax {
        path: PathBuf,
        #[source]
        source: serde_norway::Error,
    },
    #[error("{origin}: there is no setting `{key}`{}", suggestion(.nearest))]
    Unknown { key: String, nearest: Option<&'static str>, origin: Origin },
    #[error("{origin}: `{key}` is a section: give it settings of its own")]
    Section { key: String, origin: Origin },
    #[error("{origin}: {key}: {message}")]
    Value { key: String, message: String, origin: Origin },
    #[error("`{0}` is not a setting with its value: write --set KEY=VALUE")]
    Assignment(String),
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map(|key| format!(", did you mean `{key}`?")).unwrap_or_default()
}

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_norway::Value;

use super::assigned::Assigned;
use super::error::{ConfigError, Origin};
use super::sections::{Config, KEYS, Key};
use super::{file, validate};

const MACHINE_WIDE: &str = "/etc/warren/warren.yaml";
const IN_DATA_DIR: &str = "warren.yaml";
const DATA_DIR: &str = "server.data_dir";

/// Variables with a short name of their own.
const SHORT: [(&str, &str); 2] = [("WARREN_DATA_DIR", DATA_DIR), ("WARREN_LISTEN", "server.listen")];

/// Where settings come from. Nothing else is looked at, so a test owns all of it.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A file that must exist. Without one, `/etc/warren/warren.yaml` and `<data>/warren.yaml` are
    /// tried in this order.
    pub file: Option<PathBuf>,
    /// The usual places are tried when no file is named.
    pub usual_files: bool,
    pub environment: Vec<(String, String)>,
    /// Settings that have flags of their own: the flag, the setting and its value.
    pub flags: Vec<(String, &'static str, String)>,
    /// `KEY=VALUE` each.
    pub assignments: Vec<String>,
    /// Where data is kept when nobody says so.
    pub default_data_dir: Option<PathBuf>,
}

/// A configuration, and where each part of it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    /// The file that was read.
    pub file: Option<PathBuf>,
    assigned: Assigned,
}

/// One setting, as `warren config print` shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub key: &'static str,
    pub value: Value,
    /// Where the value came from.
    pub origin: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub purpose: String,
}

impl Loaded {
    /// Reads and checks everything.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let file = sources.find_file();
        let mut assigned = Assigned::default();
        if let Some(path) = &sources.default_data_dir {
            assigned.set(DATA_DIR, path.display().to_string().into(), Origin::Default)?;
        }
        if let Some(path) = &file {
            file::read(path, &mut assigned)?;
        }
        sources.take_environment(&mut assigned)?;
        for (flag, key, value) in &sources.flags {
            assigned.set(key, value.as_str().into(), Origin::Flag(flag.clone()))?;
        }
        for text in &sources.assignments {
            let (key, value) = text.split_once('=').ok_or_else(|| ConfigError::Assignment(text.clone()))?;
            assigned.set(key, value.into(), Origin::Flag(format!("--set {key}")))?;
        }
        let config = Config::read(&assigned)?;
        validate::check(&config, &assigned)?;
        Ok(Self { config, file, assigned })
    }

    /// Every setting with its value and where it came from; secrets are covered.
    pub fn rows(&self) -> Vec<Row> {
        let row = |key: &Key| Row {
            key: key.path,
            value: if key.secret { covered(self.assigned.shown(key)) } else { self.assigned.shown(key) },
            origin: self.assigned.origin(key.path).to_string(),
            kind: key.kind,
            purpose: key.purpose(),
        };
        KEYS.iter().map(row).collect()
    }
}

impl Sources {
    fn find_file(&self) -> Option<PathBuf> {
        if self.file.is_some() || !self.usual_files {
            return self.file.clone();
        }
        let flag = self.flags.iter().find(|(_, key, _)| *key == DATA_DIR).map(|(_, _, value)| value);
        let variable = self.environment.iter().find(|(name, _)| name == SHORT[0].0).map(|(_, value)| value);
        let data_dir = flag.or(variable).map(PathBuf::from).or_else(|| self.default_data_dir.clone());
        let usual = [Some(PathBuf::from(MACHINE_WIDE)), data_dir.map(|dir| dir.join(IN_DATA_DIR))];
        usual.into_iter().flatten().find(|path| Path::exists(path))
    }

    /// One rule: `WARREN_`, then the setting in upper case with two underscores for the dot. Other
    /// variables are none of ours.
    fn take_environment(&self, assigned: &mut Assigned) -> Result<(), ConfigError> {
        for (name, value) in &self.environment {
            let short = SHORT.iter().find(|(short, _)| short == name).map(|(_, key)| (*key).to_owned());
            let long = name
                .strip_prefix("WARREN_")
                .filter(|rest| rest.contains("__"))
                .map(|rest| rest.to_ascii_lowercase().replace("__", "."));
            if let Some(key) = short.or(long) {
                assigned.set(&key, value.as_str().into(), Origin::Environment(name.clone()))?;
            }
        }
        Ok(())
    }
}

/// The same shape with nothing to read in it.
fn covered(value: Value) -> Value {
    match value {
        Value::Mapping(pairs) => {
            Value::Mapping(pairs.into_iter().map(|(name, _)| (name, "***".into())).collect())
        }
        _ => "***".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(sources: Sources) -> Result<Loaded, String> {
        Loaded::load(&sources).map_err(|error| error.to_string())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn origin(loaded: &Loaded, key: &str) -> String {
        loaded.rows().into_iter().find(|row| row.key == key).unwrap().origin
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("warren.yaml");
        std::fs::write(&path, "limits:\n  memory: 1GiB\n  cpus: 1\n  pids: 100\n").unwrap();
        let sources = Sources {
            file: Some(path.clone()),
            environment: pairs(&[("WARREN_LIMITS__CPUS", "1.5"), ("WARREN_LIMITS__PIDS", "200")]),
            assignments: vec!["limits.pids=300".to_owned()],
            ..Sources::default()
        };
        let loaded = load(sources).unwrap();
        let limits = &loaded.config.limits;
        assert_eq!((limits.memory.0, limits.cpus.milli(), limits.pids), (1 << 30, 1500, 300));
        assert_eq!(origin(&loaded, "limits.memory"), format!("{}:2", path.display()));
        assert_eq!(origin(&loaded, "limits.cpus"), "$WARREN_LIMITS__CPUS");
        assert_eq!(origin(&loaded, "limits.pids"), "--set limits.pids");
        assert_eq!(origin(&loaded, "limits.disk"), "default");
    }

    #[test]
    fn the_file_in_the_data_directory_is_found() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("warren.yaml"), "chats:\n  port: 9001\n").unwrap();
        let environment = pairs(&[("WARREN_DATA_DIR", directory.path().to_str().unwrap())]);
        let loaded = load(Sources { usual_files: true, environment, ..Sources::default() }).unwrap();
        assert_eq!(loaded.config.chats.port, 9001);
        assert_eq!(loaded.config.server.data_dir, directory.path());
    }

    #[test]
    fn a_misspelt_variable_is_refused_and_others_are_left_alone() {
        let wrong = pairs(&[("WARREN_HTTP__MAX_BODDY", "1MiB")]);
        let error = load(Sources { environment: wrong, ..Sources::default() }).unwrap_err();
        assert!(error.starts_with("$WARREN_HTTP__MAX_BODDY: there is no setting"), "{error}");
        let others = pairs(&[("WARREN_URL", "x"), ("WARREN_API_KEY", "y"), ("HOME", "/")]);
        assert!(load(Sources { environment: others, ..Sources::default() }).is_ok());
    }

    #[test]
    fn secrets_are_covered() {
        let assignments = vec!["chats.env=TOKEN=hush".to_owned()];
        let loaded = load(Sources { assignments, ..Sources::default() }).unwrap();
        assert_eq!(loaded.config.chats.env["TOKEN"], "hush");
        assert!(!serde_json::to_string(&loaded.rows()).unwrap().contains("hush"));
    }

    #[test]
    fn contradictions_name_the_setting_and_where_it_came_from() {
        for (assignment, expected) in [
            (
                "disk.critical=6GiB",
                "--set disk.critical: disk.critical: may not be more than disk.warn (5GiB)",
            ),
            (
                "limits.memory=100GiB",
                "--set limits.memory: limits.memory: may not be more than limits.max_memory (64GiB)",
            ),
            ("timeouts.sweep=10ms", "--set timeouts.sweep: timeouts.sweep: must be at least 1s"),
            (
                "http.max_connections=0",
                "--set http.max_connections: http.max_connections: must be at least 1",
            ),
        ] {
            let error = load(Sources { assignments: vec![assignment.to_owned()], ..Sources::default() });
            assert_eq!(error.unwrap_err(), expected);
        }
    }

    #[test]
    fn without_keys_only_loopback_is_served() {
        let open = |listen: &str| {
            let assignments = vec!["auth.enabled=false".to_owned(), format!("server.listen={listen}")];
            load(Sources { assignments, ..Sources::default() }).map(|_| ())
        };
        assert_eq!(open("127.0.0.1:1"), Ok(()));
        assert_eq!(open("[::1]:1"), Ok(()));
        for listen in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1"] {
            assert!(open(listen).unwrap_err().contains("loopback"), "{listen}");
        }
    }
}

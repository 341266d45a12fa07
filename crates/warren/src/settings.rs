//! The server's settings, from the command line, the environment and files.

use std::path::PathBuf;

use clap::Args;
use warren_server::config::{Loaded, Sources};

use crate::error::CliError;
use crate::global::Global;

/// The flags that change settings.
#[derive(Debug, Default, Args)]
pub(crate) struct SettingFlags {
    /// Read settings from this file [default: /etc/warren/warren.yaml, else warren.yaml in the data
    /// directory]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen on this address [default: 127.0.0.1:7777]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Let sandboxes be given this directory and all below it; may be repeated
    #[arg(long, value_name = "DIR")]
    allow_mount: Vec<PathBuf>,
    /// Sandboxes that may be alive at once
    #[arg(long, value_name = "COUNT")]
    max_sandboxes: Option<String>,
    /// How the log is written: text or json
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Ask for no key; only for loopback addresses
    #[arg(long)]
    no_auth: bool,
    /// Give any setting a value; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
}

impl SettingFlags {
    /// Flags with these two values and no other.
    pub(crate) fn of(config: Option<PathBuf>, listen: Option<String>) -> Self {
        Self { config, listen, ..Self::default() }
    }

    pub(crate) fn load(&self, global: &Global) -> Result<Loaded, CliError> {
        let hint = "docs/configuration.md has every setting; `warren config print` shows those in force";
        Loaded::load(&self.sources(global)?).map_err(|error| CliError::new(error).hint(hint))
    }

    fn sources(&self, global: &Global) -> Result<Sources, CliError> {
        let environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        // The flag and the variable are one argument to the parser; only what differs from the
        // variable was a flag.
        let variable = |path: &PathBuf| {
            let set = environment.iter().find(|(name, _)| name == "WARREN_DATA_DIR");
            set.is_some_and(|(_, value)| path.as_os_str() == value.as_str())
        };
        let flagged = match &global.data_dir {
            Some(path) if !variable(path) => Some(global.data_dir()?.display().to_string()),
            _ => None,
        };
        let mounts: Vec<String> = self.allow_mount.iter().map(|path| path.display().to_string()).collect();
        let flags = [
            ("--data-dir", "server.data_dir", flagged),
            ("--listen", "server.listen", self.listen.clone()),
            ("--allow-mount", "mounts.allow", (!mounts.is_empty()).then(|| mounts.join(","))),
            ("--max-sandboxes", "limits.max_sandboxes", self.max_sandboxes.clone()),
            ("--log-format", "log.format", self.log_format.clone()),
            ("--no-auth", "auth.enabled", self.no_auth.then(|| "false".to_owned())),
        ];
        Ok(Sources {
            file: self.config.clone(),
            usual_files: true,
            environment,
            flags: flags
                .into_iter()
                .filter_map(|(flag, key, value)| Some((flag.to_owned(), key, value?)))
                .collect(),
            assignments: self.assignments.clone(),
            default_data_dir: Some(global.data_dir()?),
        })
    }
}

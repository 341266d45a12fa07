//! The options of every command.

use std::path::PathBuf;

use clap::Args;

use crate::error::CliError;

#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Where sandboxes and templates are kept [default: /var/lib/warren]
    #[arg(long, global = true, env = "WARREN_DATA_DIR", value_name = "DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// The server to talk to, such as http://127.0.0.1:7777 [default: that of the context in use,
    /// else of the data directory]
    #[arg(long, global = true, env = "WARREN_URL", value_name = "URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// The key to show to the server [default: the local server's]
    #[arg(long, global = true, env = "WARREN_API_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
    /// Trust the certificates of an https server by this file of authorities (PEM) alone [default:
    /// those that this machine trusts]
    #[arg(long, global = true, env = "WARREN_CA", value_name = "FILE", hide_env_values = true)]
    pub(crate) ca: Option<PathBuf>,
    /// The server that `warren context add` gave this name; `local` is this machine's own
    #[arg(long, global = true, env = "WARREN_CONTEXT", value_name = "NAME", hide_env_values = true)]
    pub(crate) context: Option<String>,
    /// Print only ids and what was asked for; errors are still told
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// End the process right after the named step (tests of crash recovery; debug builds only)
    #[arg(long, global = true, env = "WARREN_CRASH_AT", hide = true)]
    pub(crate) crash_at: Option<String>,
}

impl Global {
    /// The directory that holds this machine's sandboxes, as an absolute path: mounts name it.
    pub(crate) fn data_dir(&self) -> Result<PathBuf, CliError> {
        match &self.data_dir {
            Some(path) => std::path::absolute(path).map_err(CliError::new),
            None => Ok(PathBuf::from("/var/lib/warren")),
        }
    }

    /// These options for another data directory and its own server.
    pub(crate) fn at(&self, data_dir: PathBuf) -> Self {
        Self { data_dir: Some(data_dir), url: None, key: None, context: None, ..self.clone() }
    }
}

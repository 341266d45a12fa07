use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use warren_core::{Check, CheckStatus};
use warren_isolate::{DataDir, Native};
use warren_network::HostNetwork;
use warren_store::{SHOWN, hidden_names};

use super::serve::SettingFlags;
use super::storage::Found;
use super::word;
use crate::cli::Global;
use crate::error::{CliError, FAILED};
use crate::local::{data_dir, is_root, sudo};
use crate::ui;

/// Check what this machine offers to sandboxes, and say what to do about what is missing.
///
/// Exits with 0 if sandboxes can be made.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let data_dir = data_dir(global)?;
        let mut checks = Native::examine(&data_dir);
        if is_root() {
            checks.insert(1, place(&data_dir));
            checks.push(private_names());
            checks.push(snapshots(global));
            checks.extend(HostNetwork::examine());
        }
        let worst = checks.iter().map(|check| check.status).max().unwrap_or(CheckStatus::Ok);
        if self.json {
            ui::print_json(&checks);
        } else {
            for check in &checks {
                let mark = match check.status {
                    CheckStatus::Ok => "ok     ",
                    CheckStatus::Warning => "warning",
                    CheckStatus::Failed => "FAILED ",
                };
                ui::print(&format!("{mark}  {:<22} {}", check.name, check.found));
                if !check.advice.is_empty() {
                    ui::print(&format!("         {:<22} → {}", "", check.advice));
                }
            }
            ui::print(match worst {
                CheckStatus::Failed if !is_root() => {
                    "\nsandboxes cannot be made by this user: see what root can do"
                }
                CheckStatus::Failed => "\nsandboxes cannot be made on this machine yet",
                CheckStatus::Ok | CheckStatus::Warning => "\nsandboxes can be made on this machine",
            });
            if !is_root() {
                ui::print(&format!("  {}", sudo::this_command()));
            }
        }
        Ok(if worst == CheckStatus::Failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
    }
}

/// Whether the data directory may be one.
fn place(data_dir: &Path) -> Check {
    let name = "data directory";
    match DataDir::examine(data_dir, &SHOWN) {
        Ok(_) => Check {
            name,
            status: CheckStatus::Ok,
            found: data_dir.display().to_string(),
            advice: String::new(),
        },
        Err(error) => {
            let advice = error.advice();
            Check { name, status: CheckStatus::Failed, found: CliError::new(error).chain(), advice }
        }
    }
}

/// What of the machine's own files no sandbox sees, and whether that can be found out.
fn private_names() -> Check {
    let name = "private files";
    match hidden_names() {
        Ok(count) => {
            let found = format!("hidden from every sandbox: {count} in /usr that not everybody may read");
            Check { name, status: CheckStatus::Ok, found, advice: String::new() }
        }
        Err(error) => Check {
            name,
            status: CheckStatus::Failed,
            found: CliError::new(error).chain(),
            advice: "template `host` cannot be used: mend /usr, or import a template".to_owned(),
        },
    }
}

/// How the server here would capture sandboxes, and whether the disk can do that.
fn snapshots(global: &Global) -> Check {
    let check = |status, found: String, advice: &str| Check {
        name: "snapshots",
        status,
        found,
        advice: advice.to_owned(),
    };
    let loaded = match SettingFlags::default().load(global) {
        Ok(loaded) => loaded,
        Err(error) => {
            return check(CheckStatus::Warning, error.chain(), "mend the settings: `warren config check`");
        }
    };
    let driver = loaded.config.snapshots.driver;
    let found = match Found::at(&loaded.config.server.data_dir) {
        Ok(found) => found,
        Err(error) => return check(CheckStatus::Warning, error.chain(), "look at the data directory's disk"),
    };
    if let Some(pool) = found.pool.as_ref().filter(|pool| !pool.mounted) {
        let text = format!("{}: the pool {} is not mounted", word(&driver), pool.file.display());
        return check(CheckStatus::Ok, text, "the next start mounts it, and `warren storage mount` does");
    }
    let text =
        format!("{}; on this {} there could be: {}", word(&driver), found.file_system, found.driver_words());
    if found.drivers.contains(&driver) {
        return check(CheckStatus::Ok, text, "");
    }
    check(
        CheckStatus::Warning,
        text,
        "the server will not start: set snapshots.driver to one of these, or make a pool: `warren storage create`",
    )
}

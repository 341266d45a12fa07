use std::process::ExitCode;

use clap::Args;
use warren_core::CheckStatus;
use warren_isolate::Native;

use crate::cli::Global;
use crate::error::{CliError, FAILED};
use crate::local::data_dir;
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
        let checks = Native::examine(&data_dir(global)?);
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
                CheckStatus::Failed => "\nsandboxes cannot be made on this machine yet",
                CheckStatus::Ok | CheckStatus::Warning => "\nsandboxes can be made on this machine",
            });
        }
        Ok(if worst == CheckStatus::Failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
    }
}

use std::process::ExitCode;

use clap::Args;
use warren_core::ByteSize;
use warren_wire::api::{HealthDetails, HealthStatus};

use crate::cli::Global;
use crate::error::CliError;
use crate::time::seconds_since;
use crate::ui;

/// Show the server's figures since it started.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let stats = global.client()?.stats()?;
        if self.json {
            ui::print_json(&stats);
            return Ok(ExitCode::SUCCESS);
        }
        let value = serde_json::to_value(&stats).map_err(CliError::new)?;
        let rows: Vec<[String; 2]> = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| [name.replace('_', " "), value.to_string()])
            .collect();
        ui::print_table(["WHAT", "VALUE"], &rows);
        Ok(ExitCode::SUCCESS)
    }
}

/// Say whether the server can do its work.
///
/// Exit code 0 when all is well or a warning is due, 1 when new work is refused.
#[derive(Debug, Args)]
pub(crate) struct Health {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Go on without the sandboxes that are missing, after a start that found most of them gone
    #[arg(long)]
    accept_losses: bool,
}

impl Health {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let client = global.client()?;
        let health = if self.accept_losses { client.accept_losses()? } else { client.health()? };
        if self.json {
            ui::print_json(&health);
        } else {
            ui::print(&super::word(&health.status));
            if let Some(details) = &health.details {
                print(details);
            }
        }
        let refused = health.status == HealthStatus::Critical;
        Ok(if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn print(details: &HealthDetails) {
    for problem in &details.problems {
        ui::print_plain(&format!("  {problem}"));
    }
    ui::print(&format!("  sandboxes {} of {}", details.sandboxes, details.max_sandboxes));
    ui::print(&format!("  sessions  {}", details.sessions));
    if let Some(disk) = &details.disk {
        ui::print(&format!(
            "  disk      {} of {} free",
            ByteSize(disk.free_bytes),
            ByteSize(disk.total_bytes)
        ));
    }
    for (name, works) in &details.backends {
        ui::print(&format!("  backend   {name}: {}", if *works { "works" } else { "cannot make sandboxes" }));
    }
    if let Some(reason) = &details.no_network {
        ui::print_plain(&format!("  network   none for sandboxes: {reason}"));
    }
    ui::print(&format!("  up        {}", seconds_since(details.uptime_s)));
    ui::print(&format!("  version   {}", details.version));
}

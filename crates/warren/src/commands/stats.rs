use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use warren_core::ByteSize;
use warren_wire::api::{HealthDetails, HealthStatus};

use crate::error::CliError;
use crate::global::Global;
use crate::time::{from_milliseconds, in_one_unit};
use crate::ui;
use crate::word::word;

/// Show the server's figures since it started.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let stats = serde_json::to_value(global.client()?.stats()?).map_err(CliError::new)?;
        ui::show(self.json, &stats, |stats| {
            let figures = stats.as_object().into_iter().flatten();
            let rows: Vec<_> = figures.map(|(name, value)| figure(name, value)).collect();
            ui::print_table(["WHAT", "VALUE"], &rows);
        });
        Ok(())
    }
}

/// A figure by its name, in the unit that the name ends with.
fn figure(name: &str, value: &Value) -> [String; 2] {
    let (short, unit) = name.rsplit_once('_').unwrap_or((name, ""));
    let told = match (unit, value.as_u64()) {
        ("bytes", Some(bytes)) => ByteSize(bytes).to_string(),
        ("ms", Some(milliseconds)) => from_milliseconds(milliseconds),
        ("s", Some(seconds)) => in_one_unit(seconds),
        _ => return [name.replace('_', " "), value.to_string()],
    };
    [short.replace('_', " "), told]
}

/// Show whether the server can do its work.
///
/// Exit code 0 when all is well or there is a warning, 1 when new work is refused.
#[derive(Debug, Args)]
pub(crate) struct Health {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Go on without the missing sandboxes, after a start that found most of them gone
    #[arg(long)]
    accept_losses: bool,
}

impl Health {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let client = global.client()?;
        let health = if self.accept_losses { client.accept_losses()? } else { client.health()? };
        ui::show(self.json, &health, |health| {
            ui::print(&word(&health.status));
            health.details.iter().for_each(print);
        });
        Ok(ExitCode::from(u8::from(health.status == HealthStatus::Critical)))
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
    ui::print(&format!("  up        {}", in_one_unit(details.uptime_s)));
    ui::print(&format!("  version   {}", details.version));
}

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use warren_core::{Found, Isolation};

use crate::cli::Global;
use crate::error::CliError;
use crate::local::Local;
use crate::ui;

/// List the sandboxes on this machine.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let mut found = Local::open(global)?.backend.list()?;
        found.sort_by_key(|sandbox| sandbox.created_unix_ms);
        if self.json {
            ui::print_json(&found);
        } else {
            let rows: Vec<_> = found.iter().map(row).collect();
            ui::print_table(["SANDBOX", "TEMPLATE", "STATE", "AGE", "MEMORY", "CPUS"], &rows);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn row(sandbox: &Found) -> [String; 6] {
    let state = match (sandbox.alive, sandbox.frozen) {
        (false, _) => "dead",
        (true, true) => "paused",
        (true, false) => "ready",
    };
    let limits = &sandbox.spec.limits;
    [
        sandbox.id.to_string(),
        sandbox.spec.template.to_string(),
        state.to_owned(),
        age(sandbox.created_unix_ms),
        limits.memory.to_string(),
        limits.cpus.to_string(),
    ]
}

fn age(created_unix_ms: u64) -> String {
    let created = UNIX_EPOCH + Duration::from_millis(created_unix_ms);
    let seconds = SystemTime::now().duration_since(created).unwrap_or_default().as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

use std::process::ExitCode;

use clap::Args;
use warren_core::SandboxId;
use warren_wire::api::{Process, Signal};

use crate::cli::Global;
use crate::error::CliError;
use crate::time::seconds_since;
use crate::ui;

/// List the processes that were started in a sandbox, ended ones for a while too.
#[derive(Debug, Args)]
pub(crate) struct Processes {
    /// The sandbox, as `warren ls` lists them
    id: SandboxId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Processes {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let list = global.client()?.processes(self.id.as_str())?;
        if self.json {
            ui::print_json(&list.items);
        } else {
            let rows: Vec<_> = list.items.iter().map(row).collect();
            ui::print_table(["PROCESS", "PID", "STATE", "AGE", "TAG", "COMMAND"], &rows);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn row(process: &Process) -> [String; 6] {
    let state = match &process.exit {
        Some(exit) => format!("exited {}", exit.exit_code),
        None => super::word(&process.status),
    };
    [
        process.process_id.to_string(),
        process.pid.to_string(),
        state,
        seconds_since(process.age_ms / 1000),
        process.tag.clone().unwrap_or_default(),
        process.command.join(" ").chars().take(80).collect(),
    ]
}

/// Send a signal to a process of a sandbox.
#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// The sandbox, as `warren ls` lists them
    id: SandboxId,
    /// The process: its number, pid:N or tag:NAME
    process: String,
    /// A signal's name or number
    #[arg(long, short, default_value = "TERM", value_name = "SIGNAL")]
    signal: String,
    /// To its whole process group
    #[arg(long, short)]
    group: bool,
}

impl Kill {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let signal = match self.signal.parse() {
            Ok(number) => Signal::Number(number),
            Err(_) => Signal::Name(self.signal.trim_start_matches("SIG").to_owned()),
        };
        global.client()?.signal(self.id.as_str(), &self.process, signal, self.group)?;
        Ok(ExitCode::SUCCESS)
    }
}

use clap::Args;
use warren_core::SandboxWord;
use warren_wire::api::{Process, Signal};

use crate::error::CliError;
use crate::global::Global;
use crate::time::in_one_unit;
use crate::ui;
use crate::word::word;

/// List the processes that were started in a sandbox, ended ones for a while too.
#[derive(Debug, Args)]
pub(crate) struct Processes {
    /// The sandbox, as `warren ls` lists them [default: the default sandbox]
    id: Option<SandboxWord>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Processes {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let (client, id) = global.sandbox_or_default(self.id.as_ref())?;
        let list = client.processes(id.as_str())?.items;
        ui::show_table(self.json, ["PROCESS", "PID", "STATE", "AGE", "TAG", "COMMAND"], &list, row);
        Ok(())
    }
}

fn row(process: &Process) -> [String; 6] {
    let state = match &process.exit {
        Some(exit) => format!("exited {}", exit.exit_code),
        None => word(&process.status),
    };
    [
        process.process_id.to_string(),
        process.pid.to_string(),
        state,
        in_one_unit(process.age_ms / 1000),
        process.tag.clone().unwrap_or_default(),
        process.command.join(" ").chars().take(80).collect(),
    ]
}

/// Send a signal to a process of a sandbox.
#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
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
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let signal = match self.signal.parse() {
            Ok(number) => Signal::Number(number),
            Err(_) => Signal::Name(self.signal.trim_start_matches("SIG").to_owned()),
        };
        global.client()?.signal(self.id.as_str(), &self.process, signal, self.group)?;
        Ok(())
    }
}

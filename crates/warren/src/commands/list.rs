use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde::Serialize;
use warren_core::Found;
use warren_wire::api::{Sandbox, SandboxStatus};
use warren_wire::client::{Client, SandboxQuery};

use crate::cli::Global;
use crate::error::CliError;
use crate::local::Local;
use crate::service::Place;
use crate::time::{age_of, seconds_since};
use crate::ui;

/// List sandboxes: those that live, and those that can be resumed.
///
/// Without a server, those that `warren run --keep` left on this machine.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Also those that ended for good
    #[arg(long, short)]
    all: bool,
    /// Only those with this label (may be repeated)
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    /// Print only ids
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        match global.place()? {
            Place::Server(client) => self.show(&self.of_server(&client)?),
            Place::Machine => self.show(&of_machine(global)?),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn of_server(&self, client: &Client) -> Result<Vec<Sandbox>, CliError> {
        let mut wanted = SandboxQuery { ended: self.all, labels: self.label.clone(), cursor: None };
        let mut sandboxes = Vec::new();
        loop {
            let page = client.sandboxes(&wanted)?;
            sandboxes.extend(page.items);
            wanted.cursor = page.next_cursor;
            if wanted.cursor.is_none() {
                return Ok(sandboxes);
            }
        }
    }

    fn show<T: Serialize + Row>(&self, sandboxes: &[T]) {
        if self.json {
            ui::print_json(&sandboxes);
        } else if self.quiet {
            sandboxes.iter().for_each(|sandbox| ui::print(&sandbox.row()[0]));
        } else {
            let rows: Vec<_> = sandboxes.iter().map(Row::row).collect();
            ui::print_table(["SANDBOX", "TEMPLATE", "STATE", "AGE", "MEMORY", "CPUS", "LABELS"], &rows);
        }
    }
}

/// A sandbox of this machine that no server looks after.
#[derive(Debug, Serialize)]
struct Kept {
    sandbox_id: String,
    status: &'static str,
    #[serde(flatten)]
    found: Found,
}

fn of_machine(global: &Global) -> Result<Vec<Kept>, CliError> {
    let mut found = Local::instead_of_server(global)?.list()?;
    found.sort_by_key(|sandbox| sandbox.created_unix_ms);
    let kept = |found: Found| {
        let status = match (found.alive, found.frozen) {
            (false, _) => "stopped",
            (true, true) => "paused",
            (true, false) => "ready",
        };
        Kept { sandbox_id: found.id.to_string(), status, found }
    };
    Ok(found.into_iter().map(kept).collect())
}

/// A line of the table.
trait Row {
    fn row(&self) -> [String; 7];
}

impl Row for Sandbox {
    fn row(&self) -> [String; 7] {
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        [
            self.sandbox_id.clone(),
            self.template.clone(),
            state(self),
            age_of(&self.created_at),
            warren_core::ByteSize::mib(self.limits.memory_mib).to_string(),
            self.limits.cpus.to_string(),
            labels.join(" "),
        ]
    }
}

impl Row for Kept {
    fn row(&self) -> [String; 7] {
        let limits = &self.found.spec.limits;
        let created = UNIX_EPOCH + Duration::from_millis(self.found.created_unix_ms);
        let age = SystemTime::now().duration_since(created).unwrap_or_default();
        [
            self.sandbox_id.clone(),
            self.found.spec.template.to_string(),
            self.status.to_owned(),
            seconds_since(age.as_secs()),
            limits.memory.to_string(),
            limits.cpus.to_string(),
            String::new(),
        ]
    }
}

fn state(sandbox: &Sandbox) -> String {
    let word = super::word(&sandbox.status);
    match (&sandbox.death, sandbox.status) {
        (Some(death), _) => format!("{word} ({})", super::word(&death.cause)),
        (None, SandboxStatus::Paused) => match &sandbox.paused_by {
            Some(by) => format!("{word} ({})", super::word(by)),
            None => word,
        },
        (None, _) => word,
    }
}

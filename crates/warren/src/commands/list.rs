use clap::Args;
use serde::Serialize;
use warren_core::Found;
use warren_wire::api::{Sandbox, SandboxStatus};
use warren_wire::client::{Client, SandboxQuery};

use crate::error::CliError;
use crate::global::Global;
use crate::local::Local;
use crate::server::{Place, all_pages};
use crate::time::{age_of, age_since};
use crate::ui;
use crate::word::word;

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
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        match global.place()? {
            Place::Server(client) => self.show(&self.of_server(&client)?),
            Place::Machine => self.show(&of_machine(global)?),
        }
        Ok(())
    }

    fn of_server(&self, client: &Client) -> Result<Vec<Sandbox>, CliError> {
        all_pages(|cursor| {
            client.sandboxes(&SandboxQuery { ended: self.all, labels: self.label.clone(), cursor })
        })
    }

    fn show<T: Serialize + Row>(&self, sandboxes: &[T]) {
        if self.quiet {
            return sandboxes.iter().for_each(|sandbox| ui::print(&sandbox.row()[0]));
        }
        let headings = ["SANDBOX", "TEMPLATE", "STATE", "AGE", "MEMORY", "CPUS", "LABELS"];
        ui::show_table(self.json, headings, sandboxes, Row::row);
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
        [
            self.sandbox_id.clone(),
            self.found.spec.template.to_string(),
            self.status.to_owned(),
            age_since(self.found.created_unix_ms / 1000),
            limits.memory.to_string(),
            limits.cpus.to_string(),
            String::new(),
        ]
    }
}

fn state(sandbox: &Sandbox) -> String {
    let status = word(&sandbox.status);
    match (&sandbox.death, &sandbox.paused_by) {
        (Some(death), _) => format!("{status} ({})", word(&death.cause)),
        (None, Some(by)) if sandbox.status == SandboxStatus::Paused => format!("{status} ({})", word(by)),
        (None, _) => status,
    }
}

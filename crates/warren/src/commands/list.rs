use clap::Args;
use serde::Serialize;
use warren_core::Found;
use warren_server::rfc3339;
use warren_wire::api::{Sandbox, SandboxStatus};
use warren_wire::client::{Client, SandboxQuery};

use crate::error::CliError;
use crate::global::Global;
use crate::local::Local;
use crate::server::{Place, all_pages};
use crate::time::{age_of, age_since, time_until};
use crate::ui;
use crate::which::name_of;
use crate::word::word;

/// List sandboxes: those that live, and those that can be resumed.
///
/// One that is `stopped` has its files and can be resumed; one that is `gone` cannot. Without a
/// server, those that `warren run --keep` left on this machine.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Also those that ended for good
    #[arg(long, short)]
    all: bool,
    /// Only those with this label (may be repeated)
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
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
            client.sandboxes(&SandboxQuery {
                ended: self.all,
                labels: self.label.clone(),
                cursor,
                limit: None,
            })
        })
    }

    fn show<T: Serialize + Row>(&self, sandboxes: &[T]) {
        let headings = ["SANDBOX", "NAME", "STATE", "AGE", "EXPIRES", "BACKEND", "TEMPLATE", "LABELS"];
        ui::show_table(self.json, headings, sandboxes, Row::row);
    }
}

/// A sandbox of this machine that no server looks after.
#[derive(Debug, Serialize)]
struct Kept {
    sandbox_id: String,
    status: &'static str,
    backend: &'static str,
    created_at: String,
    #[serde(flatten)]
    found: Found,
}

fn of_machine(global: &Global) -> Result<Vec<Kept>, CliError> {
    let mut found = Local::instead_of_server(global)?.by_backend()?;
    found.sort_by_key(|(_, sandbox)| sandbox.created_unix_ms);
    let kept = |(backend, found): (&'static str, Found)| {
        let status = match (found.alive, found.frozen) {
            (false, _) => "stopped",
            (true, true) => "paused",
            (true, false) => "ready",
        };
        let created_at = rfc3339(found.created_unix_ms);
        Kept { sandbox_id: found.id.to_string(), status, backend, created_at, found }
    };
    Ok(found.into_iter().map(kept).collect())
}

/// A line of the table.
trait Row {
    fn row(&self) -> [String; 8];
}

impl Row for Sandbox {
    fn row(&self) -> [String; 8] {
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        [
            self.sandbox_id.clone(),
            self.name.clone().unwrap_or_default(),
            state(self),
            age_of(&self.created_at),
            if self.death.is_some() { String::new() } else { time_until(&self.expires_at) },
            self.backend.clone(),
            self.image.as_ref().unwrap_or(&self.template).clone(),
            labels.join(" "),
        ]
    }
}

impl Row for Kept {
    fn row(&self) -> [String; 8] {
        [
            self.sandbox_id.clone(),
            name_of(&self.found).unwrap_or_default().to_owned(),
            self.status.to_owned(),
            age_since(self.found.created_unix_ms / 1000),
            "never".to_owned(),
            self.backend.to_owned(),
            self.found.spec.base().name().to_owned(),
            String::new(),
        ]
    }
}

/// The state in a word, and why it is so. `stopped` can be resumed, and `gone` cannot.
pub(super) fn state(sandbox: &Sandbox) -> String {
    if sandbox.unreachable.is_some() {
        return "unreachable".to_owned();
    }
    let status = word(&sandbox.status);
    match (&sandbox.death, &sandbox.paused_by) {
        (Some(death), _) if sandbox.resumable => format!("stopped ({})", word(&death.cause)),
        (Some(death), _) => format!("gone ({})", word(&death.cause)),
        (None, Some(by)) if sandbox.status == SandboxStatus::Paused => format!("{status} ({})", word(by)),
        (None, _) => status,
    }
}

use std::io;

use clap::Args;
use serde::Deserialize;
use warren_core::SandboxId;
use warren_wire::api::Process;
use warren_wire::client::{Client, ServerEvent};

use crate::error::CliError;
use crate::global::Global;
use crate::ui;

/// Show what a process of a sandbox wrote, as far as it is kept.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The sandbox, as `warren ls` lists them
    id: SandboxId,
    /// The process: its number, pid:N or tag:NAME [default: the newest]
    process: Option<String>,
    /// Go on until it ends
    #[arg(long, short)]
    follow: bool,
}

/// A piece of output, as the server sends it.
#[derive(Deserialize)]
struct Piece {
    position: u64,
    #[serde(default)]
    data: String,
}

impl Logs {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        let process = self.find(&client)?;
        let end = (!self.follow).then_some(process.output.to);
        if end.is_some_and(|end| end <= process.output.from) {
            return Ok(());
        }
        let number = process.process_id.to_string();
        let mut events = client.follow_output(self.id.as_str(), &number, process.output.from)?;
        while let Some(event) = events.next_event()? {
            if !show(&event)? || end.is_some_and(|end| position_after(&event) >= end) {
                break;
            }
        }
        Ok(())
    }

    fn find(&self, client: &Client) -> Result<Process, CliError> {
        if let Some(process) = &self.process {
            return Ok(client.process(self.id.as_str(), process)?);
        }
        let processes = client.processes(self.id.as_str())?.items;
        processes
            .into_iter()
            .max_by_key(|process| process.process_id)
            .ok_or_else(|| CliError::new("no process was started in this sandbox yet"))
    }
}

/// Prints an event, and tells whether there is more.
fn show(event: &ServerEvent) -> Result<bool, CliError> {
    let piece = || serde_json::from_str::<Piece>(&event.data).map_err(CliError::new);
    match event.name.as_str() {
        "stdout" => ui::write(&mut io::stdout(), piece()?.data.as_bytes())?,
        "stderr" => ui::write(&mut io::stderr(), piece()?.data.as_bytes())?,
        "exited" => return Ok(false),
        _ => {}
    }
    Ok(true)
}

/// The cursor that the server gives with each event.
fn position_after(event: &ServerEvent) -> u64 {
    let piece = serde_json::from_str::<Piece>(&event.data).map_or(0, |piece| piece.position);
    event.id.as_deref().and_then(|id| id.parse().ok()).unwrap_or(piece)
}

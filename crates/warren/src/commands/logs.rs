use std::io;

use clap::Args;
use serde::{Deserialize, Serialize};
use warren_core::{SandboxId, SandboxWord};
use warren_wire::api::Process;
use warren_wire::client::{Client, ServerEvent};

use crate::error::CliError;
use crate::global::Global;
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  warren logs \"$id\"              the newest process
  warren logs -f \"$id\" tag:web
  warren logs \"$id\" 3 --json | jq -r 'select(.stream == \"stderr\").data'";

/// Show what a process of a sandbox wrote, as far as it is kept.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Logs {
    /// The sandbox, as `warren ls` lists them [default: the default sandbox]
    id: Option<SandboxWord>,
    /// The process: its number, pid:N or tag:NAME [default: the newest]
    process: Option<String>,
    /// Go on until it ends
    #[arg(long, short)]
    follow: bool,
    /// Print one JSON document per line: the stream, the position and the text of each piece
    #[arg(long)]
    json: bool,
}

/// A piece of output, as the server sends it.
#[derive(Deserialize, Serialize)]
struct Piece {
    /// The stream's name, which is the event's.
    #[serde(skip_deserializing)]
    stream: String,
    position: u64,
    #[serde(default)]
    data: String,
}

impl Logs {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let (client, id) = global.sandbox_or_default(self.id.as_ref())?;
        let process = self.find(&client, &id)?;
        let end = (!self.follow).then_some(process.output.to);
        if end.is_some_and(|end| end <= process.output.from) {
            return Ok(());
        }
        let number = process.process_id.to_string();
        let mut events = client.follow_output(id.as_str(), &number, process.output.from)?;
        while let Some(event) = events.next_event()? {
            if !show(&event, self.json)? || end.is_some_and(|end| position_after(&event) >= end) {
                break;
            }
        }
        Ok(())
    }

    fn find(&self, client: &Client, id: &SandboxId) -> Result<Process, CliError> {
        if let Some(process) = &self.process {
            return Ok(client.process(id.as_str(), process)?);
        }
        let processes = client.processes(id.as_str())?.items;
        processes
            .into_iter()
            .max_by_key(|process| process.process_id)
            .ok_or_else(|| CliError::new("no process was started in this sandbox yet"))
    }
}

/// Prints an event, and tells whether there is more.
fn show(event: &ServerEvent, json: bool) -> Result<bool, CliError> {
    let piece = || serde_json::from_str::<Piece>(&event.data).map_err(CliError::new);
    match event.name.as_str() {
        "stdout" | "stderr" if json => {
            let piece = Piece { stream: event.name.clone(), ..piece()? };
            ui::print_line(&serde_json::to_string(&piece).map_err(CliError::new)?)?;
        }
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

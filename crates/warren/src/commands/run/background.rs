//! A command that runs on in a sandbox that stays.

use std::process::ExitCode;

use serde::Serialize;
use warren_core::OwnerBond;
use warren_wire::api::{Command, StartProcess};
use warren_wire::client::Client;
use warren_wire::guest::{Connection, Reply, Request, Start, Stdin};

use super::Run;
use crate::error::CliError;
use crate::global::Global;
use crate::local::{NAME_A_SERVER, require_root};
use crate::relay;
use crate::server::Place;
use crate::time::whole_seconds;
use crate::ui;

/// The document that `--json` prints.
#[derive(Debug, Serialize)]
struct Begun {
    sandbox_id: String,
    process_id: u64,
}

impl Run {
    /// The server looks after the sandbox if there is one. Without one, nobody looks after it: it
    /// has no network, and its output is not shown.
    pub(super) fn in_background(&self, global: &Global) -> Result<ExitCode, CliError> {
        if let Some(pair) = self.publish.first() {
            return Err(CliError::new("-p needs this process to carry what comes, and -d lets it end")
                .hint(format!("leave -p out, and then: warren forward ID {}", pair.port)));
        }
        let begun = match global.place()? {
            Place::Server(client) => self.on_server(&client)?,
            Place::Machine => self.on_machine(global)?,
        };
        ui::show(self.json, &begun, |begun| ui::print(&begun.sandbox_id));
        Ok(ExitCode::SUCCESS)
    }

    fn on_server(&self, client: &Client) -> Result<Begun, CliError> {
        let sandbox_id = client.create_sandbox(&self.machine.body()?, None)?.sandbox_id;
        let start = StartProcess {
            command: Command::Words(self.command.clone()),
            timeout_s: self.timeout.map(whole_seconds),
            ..StartProcess::default()
        };
        match client.start_process(&sandbox_id, &start) {
            Ok(process) => Ok(Begun { sandbox_id, process_id: process.process_id }),
            Err(error) => {
                drop(client.delete_sandbox(&sandbox_id));
                Err(error.into())
            }
        }
    }

    fn on_machine(&self, global: &Global) -> Result<Begun, CliError> {
        require_root().map_err(|error| error.hint(NAME_A_SERVER))?;
        let local = self.machine.open_local(global, true)?;
        let network = self.kept_network()?;
        let id = local.create(self.machine.spec()?, self.machine.creation(OwnerBond::Outlives), &network)?.id;
        let start =
            Start { stdin: Stdin::Null, follow: None, ..relay::start_of(&self.command, self.timeout) };
        let started = local.dial(&id).and_then(|agent| Ok(Connection::ask(agent, &Request::Start(start))?));
        match started {
            Ok(Reply::Started(started)) => {
                ui::say(&format!(
                    "warren: no server runs, so it has no network and no logs; `warren exec {id}`, `warren rm {id}`"
                ));
                Ok(Begun { sandbox_id: id.to_string(), process_id: started.process.0 })
            }
            other => {
                drop(local.end(&id, &network));
                Err(other
                    .err()
                    .unwrap_or_else(|| CliError::new("the agent answered a start with something else")))
            }
        }
    }
}

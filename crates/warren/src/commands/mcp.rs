use std::process::ExitCode;

use clap::Args;
use warren_core::SandboxWord;
use warren_server::ServeOptions;
use warren_wire::api::CreateSandbox;
use warren_wire::client::Client;

use crate::error::CliError;
use crate::global::Global;
use crate::local::{NAME_A_SERVER, require_root};
use crate::mcp::Pump;
use crate::mcp::print::{AgentClient, Door};
use crate::server::Place;
use crate::settings::SettingFlags;
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  warren mcp --print claude                    what to type, so that Claude Code knows this server
  warren mcp --print cursor --stdio            for a client that starts a program instead
  warren mcp --sandbox web                     only this sandbox
  warren mcp --new --tools core                a sandbox of its own, and the tools for files and commands";

/// Speak the Model Context Protocol, so that an agent can use sandboxes.
///
/// A client starts this and speaks over standard input and output. The server is found as by other
/// commands; where none runs, this is one itself, for as long as the client stays, as root.
/// Clients that reach a server over HTTP need none of this: they are given its address, ending in
/// /mcp, and a key. `--print` says how.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Mcp {
    /// The one sandbox that it is about, as `warren ls` lists them
    #[arg(long, value_name = "ID", conflicts_with = "new")]
    sandbox: Option<SandboxWord>,
    /// Make a sandbox for this conversation alone, and remove it at the end
    #[arg(long)]
    new: bool,
    /// The tools to offer: all, core, or names with commas between them
    #[arg(long, value_name = "TOOLS")]
    tools: Option<String>,
    /// Print how a client is told of the server instead
    #[arg(long, value_name = "CLIENT")]
    print: Option<AgentClient>,
    /// With --print: the client is to start this program, wherever the server is
    #[arg(long, requires = "print")]
    stdio: bool,
}

impl Mcp {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        if let Some(client) = self.print {
            ui::print(&client.text(&self.door(global)?));
            return Ok(ExitCode::SUCCESS);
        }
        match global.place()? {
            Place::Server(client) => self.speak(global, &client)?,
            Place::Machine => self.serve(global)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Where no server runs, a client can only start one.
    fn door(&self, global: &Global) -> Result<Door, CliError> {
        match global.place() {
            Ok(Place::Server(client)) if !self.stdio && !self.new => {
                let word = self.sandbox.as_ref().map(ToString::to_string);
                Ok(Door::Http { url: format!("{}{}", client.base(), self.path(word.as_deref())) })
            }
            _ => Ok(Door::Stdio { words: self.words() }),
        }
    }

    fn words(&self) -> Vec<String> {
        let sandbox = self.sandbox.iter().flat_map(|word| ["--sandbox".to_owned(), word.to_string()]);
        let new = self.new.then(|| "--new".to_owned());
        let tools = self.tools.iter().flat_map(|tools| ["--tools".to_owned(), tools.clone()]);
        sandbox.chain(new).chain(tools).collect()
    }

    fn path(&self, sandbox: Option<&str>) -> String {
        let sandbox = sandbox.map(|word| format!("/{word}")).unwrap_or_default();
        let tools = self.tools.as_ref().map(|tools| format!("?tools={tools}")).unwrap_or_default();
        format!("/mcp{sandbox}{tools}")
    }

    fn speak(&self, global: &Global, client: &Client) -> Result<(), CliError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b",_-".contains(&byte);
        if self.tools.as_ref().is_some_and(|tools| !tools.bytes().all(allowed)) {
            return Err(CliError::new("--tools takes names of tools with commas between them"));
        }
        if !self.new {
            let word = self.sandbox.as_ref().map(ToString::to_string);
            return Pump::new(global, client.clone(), self.path(word.as_deref())).run();
        }
        let body = CreateSandbox { client: Some("warren mcp".to_owned()), ..CreateSandbox::default() };
        let made = client.create_sandbox(&body, None)?;
        let spoken = Pump::new(global, client.clone(), self.path(Some(&made.sandbox_id))).run();
        client.delete_sandbox(&made.sandbox_id)?;
        spoken
    }

    /// Serves on any free port of loopback. The server must begin while this process has one
    /// thread, so the client is spoken to by another one, which ends the server with a signal.
    fn serve(self, global: &Global) -> Result<(), CliError> {
        require_root().map_err(|error| error.hint(NAME_A_SERVER))?;
        let loaded = SettingFlags::of(None, Some("127.0.0.1:0".to_owned())).load(global)?;
        let options = ServeOptions { stop_sandboxes: true, ..ServeOptions::default() };
        let global = global.clone();
        let speak = move |_: &_| {
            std::thread::spawn(move || {
                let spoken = match global.place() {
                    Ok(Place::Server(client)) => self.speak(&global, &client),
                    Ok(Place::Machine) => Err(CliError::new("the server that was just started is not there")),
                    Err(error) => Err(error),
                };
                if let Err(error) = spoken {
                    ui::report(&error);
                }
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::TERM).ok();
            });
        };
        warren_server::serve(loaded.config, options, speak).map_err(CliError::new)
    }
}

use clap::Args;
use warren_core::SandboxWord;
use warren_wire::api::Sandbox;
use warren_wire::client::{Client, ClientError};

use crate::error::CliError;
use crate::global::Global;
use crate::ui;

/// Freeze sandboxes: their processes stand still and keep their memory.
#[derive(Debug, Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    which: Which,
}

/// Let frozen sandboxes go on, or start stopped ones again with the files they had.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    which: Which,
}

/// End the processes of sandboxes and keep their files, for `warren resume`.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct Which {
    /// The sandboxes, as `warren ls` lists them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<SandboxWord>,
    /// Print what they are now as JSON
    #[arg(long)]
    json: bool,
}

impl Pause {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        self.which.each(global, Client::pause)
    }
}

impl Resume {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        self.which.each(global, Client::resume)
    }
}

impl Stop {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        self.which.each(global, Client::stop)
    }
}

impl Which {
    fn each(
        self,
        global: &Global,
        act: impl Fn(&Client, &str) -> Result<Sandbox, ClientError>,
    ) -> Result<(), CliError> {
        let client = global.client()?;
        let changed: Vec<Sandbox> =
            self.ids.iter().map(|id| act(&client, id.as_str())).collect::<Result<_, _>>()?;
        if self.json {
            ui::print_json(&changed);
        }
        Ok(())
    }
}

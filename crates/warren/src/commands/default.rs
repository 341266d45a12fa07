use clap::Args;
use warren_core::SandboxWord;

use crate::error::CliError;
use crate::global::Global;
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  warren default web
  warren exec @default -- make test
  warren log
  warren default --clear";

/// Print the default sandbox, or choose it.
///
/// `@default` stands for it in every command. Commands that only look take it when no sandbox is
/// named.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Default {
    /// The sandbox to choose, as `warren ls` lists them
    #[arg(value_name = "ID", conflicts_with = "clear")]
    id: Option<SandboxWord>,
    /// Have no default sandbox
    #[arg(long)]
    clear: bool,
    /// Print all about it as JSON
    #[arg(long)]
    json: bool,
}

impl Default {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        if self.clear {
            client.unset_default_sandbox()?;
            return Ok(());
        }
        let sandbox = match &self.id {
            Some(word) => client.set_default_sandbox(word.as_str())?,
            None => client.default_sandbox()?,
        };
        ui::show(self.json, &sandbox, |sandbox| ui::print(&sandbox.sandbox_id));
        Ok(())
    }
}

use clap::Args;
use warren_core::{SandboxName, SandboxWord};
use warren_wire::api::PatchSandbox;

use crate::error::CliError;
use crate::global::Global;
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  warren rename @last web
  warren rename web old-web
  warren rename web --clear";

/// Give a sandbox a name, or another, or take its name away.
///
/// A name is unique among your sandboxes. Every command takes it instead of the id, and a stopped
/// sandbox keeps it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Rename {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// The name: letters, digits and dashes
    #[arg(value_name = "NAME", required_unless_present = "clear")]
    name: Option<SandboxName>,
    /// Take its name away
    #[arg(long, conflicts_with = "name")]
    clear: bool,
    /// Print all about it as JSON
    #[arg(long)]
    json: bool,
}

impl Rename {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let name = Some(self.name.map(String::from));
        let body = PatchSandbox { name, ..PatchSandbox::default() };
        let changed = global.client()?.patch_sandbox(self.id.as_str(), &body)?;
        if self.json {
            ui::print_json(&changed);
        }
        Ok(())
    }
}

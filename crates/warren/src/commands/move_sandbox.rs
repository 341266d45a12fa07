use clap::Args;
use warren_core::SandboxWord;
use warren_wire::api::{MoveSandbox, MovedSandbox, Tier};

use crate::error::CliError;
use crate::global::Global;
use crate::ui;
use crate::word::parse_word;

const EXAMPLES: &str = "\
Examples:
  warren move web --tier user_kernel        before it runs what nobody has read
  warren move web --backend native          and back
  warren backends                           what there is to choose from";

/// Give a sandbox another wall.
///
/// Its processes end, and it is started again by another backend with the same files, id, name,
/// history and network. A sandbox that is stopped stays so.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Move {
    /// The sandbox, as `warren ls` lists them
    #[arg(value_name = "ID")]
    id: SandboxWord,
    /// The backend to move to
    #[arg(long, value_name = "NAME", required_unless_present = "tier")]
    backend: Option<String>,
    /// The tier that its backend must have: namespaces, user_kernel, vm or remote
    #[arg(long, value_name = "TIER", value_parser = parse_word::<Tier>)]
    tier: Option<Tier>,
    /// End commands that somebody waits for, too
    #[arg(long)]
    force: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

impl Move {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let body = MoveSandbox { backend: self.backend.clone(), tier: self.tier, force: self.force };
        let moved = global.client()?.move_sandbox(self.id.as_str(), &body)?;
        ui::show(self.json, &moved, print);
        Ok(())
    }
}

fn print(moved: &MovedSandbox) {
    let MovedSandbox { from, to, .. } = moved;
    for process in &moved.ended {
        ui::print_plain(&format!("ended: {}", process.command));
    }
    ui::print(&if from == to {
        format!("it is behind {to} already")
    } else {
        format!("moved from {from} to {to} in {:.0} ms", moved.took_ms)
    });
}

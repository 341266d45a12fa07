use clap::{Args, Subcommand};
use warren_core::{ErrorCode, SandboxId, SandboxWord};
use warren_wire::api::{Snapshot as SnapshotBody, TakeSnapshot};
use warren_wire::client::Client;

use crate::error::{CliError, is};
use crate::global::Global;
use crate::time::age_of;
use crate::travel::point;
use crate::travel::present::{short, size};
use crate::travel::tree::{self, Node};
use crate::ui;
use crate::which;
use crate::word::word;

const TAKE_EXAMPLES: &str = "\
Examples:
  warren snapshot \"$id\" --name green
  warren snapshot \"$id\" --json | jq -r .snapshot_id
  warren snapshot \"$id\" --memory --name warm
  warren rollback \"$id\" green";

/// Keep the state of a sandbox's files, and print the snapshot's id.
///
/// An idle sandbox is sealed in place, in a few milliseconds however much it holds. One with
/// background processes stands still for a moment while its last changes are copied; the answer
/// says which way was taken and how long it stood still. Processes are part of a snapshot with
/// --memory only: a rollback to it, and its forks, go on with them where they were. Snapshots with
/// a name are kept until `warren snapshots rm`; of the others at most 200 are kept
/// (`snapshots.keep_automatic`), fewer the older they are.
#[derive(Debug, Args)]
#[command(after_long_help = TAKE_EXAMPLES)]
pub(crate) struct Snapshot {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// A name to find it by, unique among the sandbox's snapshots
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Answer only once it would survive a power cut
    #[arg(long)]
    durable: bool,
    /// Keep the processes too; behind runsc, for sandboxes without a network
    #[arg(long)]
    memory: bool,
    /// With --memory: also while somebody waits for a command, which goes on without them
    #[arg(long, short, requires = "memory")]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Snapshot {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let Self { name, durable, memory, force, .. } = self;
        let body = TakeSnapshot { name, durable, memory, force };
        let taken = global.client()?.take_snapshot(self.id.as_str(), &body)?;
        ui::show(self.json, &taken, |taken| {
            ui::print(&taken.snapshot_id);
            ui::say(&how(taken));
        });
        Ok(())
    }
}

fn how(taken: &SnapshotBody) -> String {
    let mut text = word(&taken.method);
    if taken.memory {
        text.push_str(", with its processes,");
    }
    if let Some(took_ms) = taken.took_ms {
        text.push_str(&format!(" in {took_ms:.1} ms"));
    }
    if let Some(frozen_ms) = taken.frozen_ms.filter(|frozen_ms| *frozen_ms > 0.0) {
        text.push_str(&format!("; the sandbox stood still for {frozen_ms:.1} ms"));
    }
    text
}

const LIST_EXAMPLES: &str = "\
Examples:
  warren snapshots \"$id\"
  warren snapshots --json | jq -r '.[] | select(.name) | .snapshot_id'
  warren snapshots name 5c1f0a2e green
  warren snapshots rm \"$id\":green";

/// Show a sandbox's snapshots as a tree, or do something with one.
///
/// The main column leads to the sandbox's present state; states that were undone branch off.
/// Without a sandbox, all your snapshots are listed, also those of sandboxes that are gone. Name a
/// snapshot by its id, the beginning of it, or its name.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_long_help = LIST_EXAMPLES)]
pub(crate) struct Snapshots {
    #[command(flatten)]
    list: ListArgs,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// The sandbox, even if it is gone
    #[arg(value_name = "SBX")]
    id: Option<SandboxWord>,
    /// Print JSON, as a flat list with the oldest first
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Delete snapshots
    Rm {
        /// The snapshots: ids, their beginnings, names or SBX:NAME
        #[arg(required = true, value_name = "SNAP")]
        snapshots: Vec<String>,
    },
    /// Give a snapshot a name, or another
    Name {
        /// The snapshot: its id, the beginning of it, its name or SBX:NAME
        #[arg(value_name = "SNAP")]
        snapshot: String,
        /// The name; without one, the snapshot loses its name and may be thinned out
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
}

impl Snapshots {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        match self.action {
            None => self.list.run(&client)?,
            Some(Action::Rm { snapshots }) => {
                for word in &snapshots {
                    client.delete_snapshot(point::snapshot(&client, word)?.as_str())?;
                }
            }
            Some(Action::Name { snapshot, name }) => {
                client.name_snapshot(point::snapshot(&client, &snapshot)?.as_str(), name.as_deref())?;
            }
        }
        Ok(())
    }
}

impl ListArgs {
    fn run(&self, client: &Client) -> Result<(), CliError> {
        let id = self.id.as_ref().map(|word| which::find(client, word)).transpose()?;
        let snapshots = point::snapshots(client, id.as_ref().map(SandboxId::as_str))?;
        if self.json {
            ui::print_json(&snapshots);
        } else if let Some(id) = &id {
            show_tree(client, id, &snapshots)?;
        } else {
            let rows: Vec<_> = snapshots.iter().rev().map(flat_row).collect();
            ui::print_table(["SNAPSHOT", "SANDBOX", "NAME", "REASON", "AGE", "SIZE"], &rows);
        }
        Ok(())
    }
}

fn flat_row(snapshot: &SnapshotBody) -> [String; 6] {
    [
        snapshot.snapshot_id.clone(),
        snapshot.sandbox_id.clone(),
        snapshot.name.clone().unwrap_or_default(),
        reason(snapshot),
        age_of(&snapshot.created_at),
        size(snapshot.bytes),
    ]
}

fn reason(snapshot: &SnapshotBody) -> String {
    let reason = word(&snapshot.reason);
    match (snapshot.damaged, snapshot.memory) {
        (true, _) => format!("{reason} (damaged)"),
        (false, true) => format!("{reason} (memory)"),
        (false, false) => reason,
    }
}

fn show_tree(client: &Client, id: &SandboxId, snapshots: &[SnapshotBody]) -> Result<(), CliError> {
    let here = match client.sandbox(id.as_str()) {
        Ok(sandbox) => sandbox.snapshot_id,
        // Snapshots outlive their sandbox.
        Err(error) if is(&error, ErrorCode::SandboxNotFound) && !snapshots.is_empty() => None,
        Err(error) => return Err(error.into()),
    };
    let rows = tree_rows(snapshots, here.as_deref());
    ui::print_table(["SNAPSHOT", "NAME", "REASON", "TURN", "AGE", "SIZE", ""], &rows);
    // A fork begins in the history of another sandbox.
    if let Some(here) = here.filter(|here| !snapshots.iter().any(|one| one.snapshot_id == *here)) {
        let of = client.snapshot(&here).map(|snapshot| snapshot.sandbox_id);
        let of = of.map(|sandbox| format!(" of {sandbox}")).unwrap_or_default();
        ui::say(&format!("here: {}{of}", short(&here)));
    }
    Ok(())
}

fn tree_rows(snapshots: &[SnapshotBody], here: Option<&str>) -> Vec<[String; 7]> {
    let nodes: Vec<Node<'_>> =
        snapshots.iter().map(|one| Node { id: &one.snapshot_id, parent: one.parent_id.as_deref() }).collect();
    let lines = tree::draw(&nodes, here);
    let shown = lines.iter().filter_map(|line| Some((line, snapshots.get(line.node)?)));
    let row = |(line, one): (&tree::Line, &SnapshotBody)| {
        let is_here = here == Some(one.snapshot_id.as_str());
        let (dot, mark) = if is_here { ('●', "← here") } else { ('○', "") };
        [
            format!("{}{dot} {}", line.lead, short(&one.snapshot_id)),
            one.name.clone().unwrap_or_default(),
            reason(one),
            one.turn.map(|turn| turn.to_string()).unwrap_or_default(),
            age_of(&one.created_at),
            size(one.bytes),
            mark.to_owned(),
        ]
    };
    shown.map(row).collect()
}

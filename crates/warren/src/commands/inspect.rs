use clap::Args;
use warren_core::{ByteSize, SandboxWord};
use warren_wire::api::{OnExpiry, Sandbox, WallChoice};

use super::list::state;
use crate::error::CliError;
use crate::global::Global;
use crate::time::{age_of, time_until};
use crate::ui;
use crate::word::word;

const EXAMPLES: &str = "\
Examples:
  warren inspect \"$id\"
  warren inspect \"$id\" --json | jq .limits";

/// Show all about a sandbox.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Inspect {
    /// The sandbox, as `warren ls --all` lists them [default: the default sandbox]
    id: Option<SandboxWord>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let word = self.id.as_ref().unwrap_or(&SandboxWord::Default);
        let sandbox = global.client()?.sandbox(word.as_str())?;
        ui::show(self.json, &sandbox, print);
        Ok(())
    }
}

fn afterwards(end: OnExpiry) -> &'static str {
    match end {
        OnExpiry::Keep => "its processes end and its files stay",
        OnExpiry::Delete => "it is deleted",
        OnExpiry::Pause => "it is frozen",
    }
}

/// The wall that was asked for, in words.
fn asked_for(wall: &WallChoice) -> String {
    let backend = wall.backend.as_ref().map(|name| format!("backend {name}"));
    let tier = wall.tier.as_ref().map(|tier| format!("tier {}", word(tier)));
    backend.into_iter().chain(tier).collect::<Vec<_>>().join(", ")
}

fn print(sandbox: &Sandbox) {
    let limits = &sandbox.limits;
    let pairs = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    let mounts = sandbox.mounts.iter().map(|mount| {
        let access = if mount.read_only { " (read-only)" } else { "" };
        format!("{} at {}{access}", mount.source, mount.target)
    });
    let expires = match sandbox.death {
        Some(_) => String::new(),
        None => format!("in {}, and then {}", time_until(&sandbox.expires_at), afterwards(sandbox.on_expiry)),
    };
    ui::print_plain(&format!("{}  {}", sandbox.sandbox_id, state(sandbox)));
    for (name, value) in [
        ("name", sandbox.name.clone().unwrap_or_default()),
        ("template", if sandbox.image.is_none() { sandbox.template.clone() } else { String::new() }),
        ("image", sandbox.image.clone().unwrap_or_default()),
        ("backend", sandbox.backend.clone()),
        ("unreachable", sandbox.unreachable.clone().unwrap_or_default()),
        ("asked for", sandbox.wall.as_ref().map(asked_for).unwrap_or_default()),
        ("age", age_of(&sandbox.created_at)),
        ("expires", expires),
        ("memory", ByteSize::mib(limits.memory_mib).to_string()),
        ("cpus", limits.cpus.to_string()),
        ("processes", format!("{} at most", limits.pids)),
        ("disk", format!("{}, {} files", ByteSize::mib(limits.disk_mib), limits.inodes)),
        ("user", sandbox.user.clone().unwrap_or_default()),
        ("directory", sandbox.workdir.clone().unwrap_or_default()),
        ("network", word(&sandbox.network.mode)),
        ("mounts", mounts.collect::<Vec<_>>().join(", ")),
        ("labels", pairs(&sandbox.labels)),
        ("metadata", pairs(&sandbox.metadata)),
        ("history", format!("{}, turn {}", word(&sandbox.history), sandbox.turn)),
        ("snapshot", sandbox.snapshot_id.clone().unwrap_or_default()),
        ("fork of", sandbox.forked_from.clone().unwrap_or_default()),
    ] {
        if !value.is_empty() {
            ui::print_plain(&format!("  {name:10} {value}"));
        }
    }
    if sandbox.death.is_some() {
        ui::print(&format!("`warren why {}` says how it ended", sandbox.sandbox_id));
    }
}

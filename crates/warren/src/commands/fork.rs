use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use warren_core::{SandboxName, parse_duration};
use warren_wire::api::{Fork as ForkBody, OnExpiry, SandboxStatus};
use warren_wire::client::{Client, SandboxQuery};

use super::run::parse_variable;
use crate::error::CliError;
use crate::global::Global;
use crate::interrupt;
use crate::time::whole_seconds;
use crate::travel::point::{self, Point};
use crate::ui::{self, Progress};

const EXAMPLES: &str = "\
Examples:
  fork=$(warren fork \"$id\")
  warren fork web --name web-2
  for id in $(warren fork \"$id\":green -n 3); do warren exec \"$id\" -- make & done
  warren fork \"$id\" -n 10 --json | jq -r '.sandboxes[].sandbox_id'";

/// Make sandboxes that begin with the files of another, and print their ids.
///
/// They share everything until they write, so a fork costs what it changes. A sandbox that runs is
/// captured first; its processes are not forked. `warren promote` merges what a fork changed back.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Fork {
    /// A sandbox, or a snapshot: its id, its name or SBX:NAME
    #[arg(value_name = "SBX|SNAP")]
    of: String,
    /// A name to call it by, for a single one
    #[arg(long, value_name = "NAME", conflicts_with = "count")]
    name: Option<SandboxName>,
    /// How many
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    count: u32,
    /// Time to live, such as 10m or 4h [default: the original's]
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    ttl: Option<Duration>,
    /// Delete their files when their time is over, instead of keeping them
    #[arg(long)]
    delete_on_expiry: bool,
    /// A label to find them by (may be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    label: Vec<(String, String)>,
    /// Something to remember with them (may be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    metadata: Vec<(String, String)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Fork {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        interrupt::listen().map_err(CliError::new)?;
        let client = global.client()?;
        let body = ForkBody {
            count: self.count,
            name: self.name.as_ref().map(ToString::to_string),
            client: None,
            ttl_s: self.ttl.map(whole_seconds),
            on_expiry: self.delete_on_expiry.then_some(OnExpiry::Delete),
            labels: self.label.into_iter().collect(),
            metadata: self.metadata.into_iter().collect(),
        };
        let of = point::point(&client, &self.of, None)?;
        let forks = ui::waiting_with("forking", far(&client, &of, self.count), || match &of {
            Point::Sandbox(id) => client.fork_sandbox(id.as_str(), &body),
            Point::Snapshot(id) => client.fork_snapshot(id.as_str(), &body),
        })?;
        ui::show(self.json, &forks, |forks| {
            forks.sandboxes.iter().for_each(|fork| ui::print(&fork.sandbox_id));
        });
        Ok(())
    }
}

/// Tells how many forks are there, of several that somebody waits for. The list of sandboxes says
/// it: forks of the same original that were there before are not counted.
fn far(client: &Client, of: &Point, count: u32) -> impl FnMut() -> String + Send + use<> {
    let original = match of {
        _ if count == 1 || !Progress::is_seen() => None,
        Point::Sandbox(id) => Some(id.to_string()),
        Point::Snapshot(id) => client.snapshot(id.as_str()).ok().map(|snapshot| snapshot.sandbox_id),
    };
    let client = client.clone();
    let before = original.as_ref().map(|original| ready_forks(&client, original)).unwrap_or_default();
    move || match &original {
        Some(original) => {
            let made = ready_forks(&client, original).difference(&before).count();
            format!("{} of {count}", made.min(count as usize))
        }
        None => String::new(),
    }
}

/// As many as one request can make, and some that others make meanwhile.
const MOST_LISTED: u32 = 200;

/// The forks of a sandbox that can be used, of the newest sandboxes.
fn ready_forks(client: &Client, original: &str) -> BTreeSet<String> {
    let newest = SandboxQuery { limit: Some(MOST_LISTED), ..SandboxQuery::default() };
    let found = client.sandboxes(&newest).map(|page| page.items).unwrap_or_default().into_iter();
    let forks = found.filter(|sandbox| sandbox.forked_from.as_deref() == Some(original));
    forks.filter(|fork| fork.status == SandboxStatus::Ready).map(|fork| fork.sandbox_id).collect()
}

use std::time::Duration;

use clap::Args;
use warren_core::{SandboxName, parse_duration};
use warren_wire::api::{CreateSandbox, HistoryMode, OnExpiry, SandboxType, TimeoutsRequest};

use super::run::{Machine, parse_variable};
use crate::error::CliError;
use crate::global::Global;
use crate::time::whole_seconds;
use crate::travel::point;
use crate::ui;
use crate::word::parse_word;

const EXAMPLES: &str = "\
Examples:
  id=$(warren create)
  warren create --name web && warren exec web -- uname -a
  warren create --ttl 10m --label task=tests --json | jq -r .sandbox_id
  warren create --idle 30m --memory 8g
  warren create --net allow=pypi.org,files.pythonhosted.org
  warren create --tier user_kernel       behind a stronger wall: `warren backends` lists them
  warren create --from sbx…:green        start with the files of a snapshot";

/// Make a sandbox that stays, and print its id.
///
/// It is frozen when it has nothing to do, and goes on at the next request. When its time is over,
/// its processes end and its files stay; `warren resume` starts it again.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Create {
    /// A name to call it by instead of its id
    #[arg(long, value_name = "NAME")]
    name: Option<SandboxName>,
    #[command(flatten)]
    machine: Machine,
    /// Start with the files of a snapshot: its id, the beginning of it, its name or SBX:NAME
    #[arg(long, value_name = "SNAP")]
    from: Option<String>,
    /// When snapshots are taken by themselves: commands, turns or off [default: the server's]
    #[arg(long, value_name = "WHEN", value_parser = parse_word::<HistoryMode>)]
    history: Option<HistoryMode>,
    /// Time to live, such as 10m or 4h [default: the server's]
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    ttl: Option<Duration>,
    /// Freeze it after it did nothing for this long [default: the server's]
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    idle: Option<Duration>,
    /// Delete its files when its time is over, instead of keeping them
    #[arg(long)]
    delete_on_expiry: bool,
    /// Freeze it when its time is over, instead of ending its processes
    #[arg(long, conflicts_with = "delete_on_expiry")]
    pause_on_expiry: bool,
    /// Its purpose: terminal, research or playwright_mcp
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_word::<SandboxType>)]
    kind: Option<SandboxType>,
    /// A label to find it by (may be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    label: Vec<(String, String)>,
    /// Something to remember with it (may be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    metadata: Vec<(String, String)>,
    /// A word of your own: asking again with the same one makes nothing new
    #[arg(long, value_name = "WORD")]
    idempotency_key: Option<String>,
    /// Print all about it as JSON
    #[arg(long)]
    json: bool,
}

impl Create {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        let mut body = self.body()?;
        if let Some(word) = &self.from {
            body.snapshot_id = Some(point::snapshot(&client, word)?.to_string());
        }
        let made = client.create_sandbox(&body, self.idempotency_key.as_deref())?;
        ui::show(self.json, &made, |made| ui::print(&made.sandbox_id));
        Ok(())
    }

    fn body(&self) -> Result<CreateSandbox, CliError> {
        let active = |idle| TimeoutsRequest { active_s: Some(whole_seconds(idle)), ..Default::default() };
        Ok(CreateSandbox {
            name: self.name.as_ref().map(ToString::to_string),
            kind: self.kind,
            ttl_s: self.ttl.map(whole_seconds),
            labels: self.label.iter().cloned().collect(),
            metadata: self.metadata.iter().cloned().collect(),
            on_expiry: self.on_expiry(),
            timeouts: self.idle.map(active),
            history: self.history,
            ..self.machine.body()?
        })
    }

    fn on_expiry(&self) -> Option<OnExpiry> {
        let pause = self.pause_on_expiry.then_some(OnExpiry::Pause);
        self.delete_on_expiry.then_some(OnExpiry::Delete).or(pause)
    }
}

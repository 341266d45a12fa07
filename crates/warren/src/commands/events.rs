use clap::Args;
use warren_core::{SandboxId, SandboxWord};
use warren_wire::api::Event;

use crate::error::CliError;
use crate::global::Global;
use crate::ui;
use crate::which;

/// Show events, the oldest first.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Only events of this sandbox
    #[arg(value_name = "ID")]
    id: Option<SandboxWord>,
    /// Go on with every new one
    #[arg(long, short)]
    follow: bool,
    /// Only those after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    /// Print one JSON document per line
    #[arg(long)]
    json: bool,
}

impl Events {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        let sandbox = self.id.as_ref().map(|word| which::find(&client, word)).transpose()?;
        let sandbox = sandbox.as_ref().map(SandboxId::as_str);
        if self.follow {
            let mut events = client.follow_events(Some(self.after), sandbox)?;
            while let Some(event) = events.next_event()? {
                self.show(&serde_json::from_str(&event.data).map_err(CliError::new)?)?;
            }
            return Ok(());
        }
        let mut after = self.after;
        loop {
            let page = client.events(after, sandbox)?;
            page.items.iter().try_for_each(|event| self.show(event))?;
            if page.next_after <= after {
                return Ok(());
            }
            after = page.next_after;
        }
    }

    fn show(&self, event: &Event) -> Result<(), CliError> {
        if self.json {
            return ui::print_line(&serde_json::to_string(event).map_err(CliError::new)?);
        }
        let data: Vec<String> = event.data.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let about = event.sandbox_id.as_deref().or(event.session_id.as_deref()).unwrap_or("-");
        ui::print_line(&format!("{} {} {} {} {}", event.number, event.at, about, event.event, data.join(" ")))
    }
}

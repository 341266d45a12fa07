use std::time::Duration;

use clap::Args;
use warren_core::{SandboxWord, parse_duration};
use warren_wire::api::{LinkMethods, MakePortLink, SetPort};

use crate::error::CliError;
use crate::global::Global;
use crate::time::whole_seconds;
use crate::ui;

/// Print the address of a port of a sandbox, or change who may use it.
///
/// A port is private unless its owner says otherwise: it takes an API key of the owner, the port's
/// token in the header Warren-Traffic-Token (`--json` shows it), or a link.
#[derive(Debug, Args)]
pub(crate) struct Port {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// The port
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Let everybody use it
    #[arg(long, conflicts_with = "private")]
    public: bool,
    /// Let only the owner use it again
    #[arg(long)]
    private: bool,
    /// The Host header that the application gets, for one that answers to some hosts only
    #[arg(long, value_name = "HOST")]
    host_header: Option<String>,
    /// Print a link that opens the port for so long, such as 1h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    link: Option<Duration>,
    /// The link is good for this path and all below it
    #[arg(long, value_name = "PATH", requires = "link")]
    path: Option<String>,
    /// The link is good for reading only
    #[arg(long, requires = "link")]
    read: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Port {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let (client, id) = global.sandbox(&self.id)?;
        let id = id.as_str();
        let mut port = client.port(id, self.port)?;
        if self.public || self.private || self.host_header.is_some() {
            let settings = SetPort {
                public: self.public || (port.public && !self.private),
                host_header: self.host_header.or(port.host_header),
            };
            port = client.set_port(id, self.port, &settings)?;
        }
        let Some(lasts) = self.link else {
            ui::show(self.json, &port, |port| ui::print(&port.url));
            return Ok(());
        };
        let wanted = MakePortLink {
            expires_in_s: Some(whole_seconds(lasts)),
            path: self.path,
            methods: self.read.then_some(LinkMethods::Read),
        };
        let link = client.port_link(id, self.port, &wanted)?;
        ui::show(self.json, &link, |link| ui::print(&link.url));
        Ok(())
    }
}

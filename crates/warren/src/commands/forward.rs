use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use clap::Args;
use warren_core::SandboxWord;

use crate::error::CliError;
use crate::global::Global;
use crate::tunnel::{Doors, Pair, Service, parse_pair};

const EXAMPLES: &str = "\
Examples:
  warren forward \"$id\" 8000
  warren forward \"$id\" 8080:80 5432
  warren forward \"$id\" 0:3000        any free port here";

/// Reach ports of a sandbox on this machine, until interrupted.
///
/// Each port of the sandbox gets one here, for any protocol over TCP, also a port that listens on
/// the sandbox's 127.0.0.1 only. The program inside may start later: earlier connections are
/// refused.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Forward {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// A port of the sandbox, with another one for here if you like: 8080:80. 0 takes any free port
    #[arg(required = true, value_name = "[LOCAL:]PORT", value_parser = parse_pair)]
    ports: Vec<Pair>,
    /// Listen on this address instead of loopback: everybody who reaches it reaches the ports
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
}

impl Forward {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let (client, id) = global.sandbox(&self.id)?;
        // A sandbox that may not be used is refused now, and not at the first connection.
        for pair in &self.ports {
            client.port(id.as_str(), pair.port)?;
        }
        let doors = Doors::open(&self.ports, Some(self.bind), &id)?;
        let threads = doors.serve(&Arc::new(Service { client, id }));
        threads.into_iter().for_each(|thread| drop(thread.join()));
        Ok(())
    }
}

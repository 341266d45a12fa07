use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use parking_lot::Mutex;
use warren_core::SandboxId;
use warren_wire::client::{Client, ClientError};

use crate::error::CliError;
use crate::global::Global;
use crate::ui;

/// Reach ports of a sandbox on this machine, until interrupted.
///
/// Each port of the sandbox gets one here, for any protocol over TCP, also a port that listens on
/// the sandbox's 127.0.0.1 only. The program inside may start later: earlier connections are
/// refused.
#[derive(Debug, Args)]
pub(crate) struct Forward {
    /// The sandbox, as `warren ls` lists them
    id: SandboxId,
    /// A port of the sandbox, with another one for here if you like: 8080:80. 0 takes any free port
    #[arg(required = true, value_name = "[LOCAL:]PORT", value_parser = parse_pair)]
    ports: Vec<Pair>,
    /// Listen on this address instead of loopback: everybody who reaches it reaches the ports
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
}

/// A port here and one in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    local: u16,
    port: u16,
}

/// Connections of one command at a time. Each has two threads.
const MOST_CONNECTIONS: usize = 512;

/// The pause after the machine ran out of descriptors or threads.
const REST: Duration = Duration::from_millis(100);

fn parse_pair(text: &str) -> Result<Pair, String> {
    let (local, port) = text.split_once(':').unwrap_or((text, text));
    match (local.parse(), port.parse()) {
        (Ok(local), Ok(port)) if port != 0 => Ok(Pair { local, port }),
        _ => Err("write PORT or LOCAL:PORT, with numbers up to 65535".to_owned()),
    }
}

impl Forward {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        let id = self.id.as_str();
        // A sandbox that may not be used is refused now, and not at the first connection.
        for pair in &self.ports {
            client.port(id, pair.port)?;
        }
        let doors = self.ports.iter().map(|pair| self.listen(*pair)).collect::<Result<Vec<_>, _>>()?;
        let tunnel = Arc::new(Tunnel {
            client,
            id: self.id.clone(),
            open: AtomicUsize::new(0),
            told: Mutex::default(),
        });
        let threads: Vec<_> = doors
            .into_iter()
            .map(|(listener, port)| {
                let tunnel = Arc::clone(&tunnel);
                std::thread::spawn(move || serve(&tunnel, &listener, port))
            })
            .collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
        Ok(())
    }

    fn listen(&self, pair: Pair) -> Result<(TcpListener, u16), CliError> {
        let address = SocketAddr::new(self.bind, pair.local);
        let listener = TcpListener::bind(address).map_err(|error| {
            CliError::new(error).hint(format!(
                "{address} cannot be listened on: choose another port with LOCAL:{}",
                pair.port
            ))
        })?;
        let bound = listener.local_addr().map_err(CliError::new)?;
        ui::say(&format!("{bound} is port {} of {}", pair.port, self.id));
        Ok((listener, pair.port))
    }
}

/// The way to a sandbox, for all ports of one command.
struct Tunnel {
    client: Client,
    id: SandboxId,
    open: AtomicUsize,
    /// Complaints that were made, so that each is made once.
    told: Mutex<HashSet<String>>,
}

/// Accepts connections as long as this process lives.
fn serve(tunnel: &Arc<Tunnel>, listener: &TcpListener, port: u16) {
    loop {
        while tunnel.open.load(Ordering::Relaxed) >= MOST_CONNECTIONS {
            std::thread::sleep(REST);
        }
        let Ok((caller, _)) = listener.accept() else {
            std::thread::sleep(REST);
            continue;
        };
        tunnel.open.fetch_add(1, Ordering::Relaxed);
        let held = Arc::clone(tunnel);
        let carried = std::thread::Builder::new().name("caller".to_owned()).spawn(move || {
            held.carry(caller, port);
            held.open.fetch_sub(1, Ordering::Relaxed);
        });
        if carried.is_err() {
            tunnel.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Tunnel {
    fn carry(&self, caller: TcpStream, port: u16) {
        match self.client.connect_port(self.id.as_str(), port) {
            // A connection that breaks is no failure of the command.
            Ok(service) => drop(both_ways(&caller, &service)),
            Err(error) => self.tell(port, &error),
        }
    }

    fn tell(&self, port: u16, error: &ClientError) {
        let text = format!("port {port}: {error}");
        let mut told = self.told.lock();
        if told.insert(text.clone()) {
            ui::complain(&text);
        }
    }
}

/// Carries bytes until both ways have ended, each on its own.
fn both_ways(caller: &TcpStream, service: &TcpStream) -> io::Result<()> {
    caller.set_nodelay(true)?;
    std::thread::scope(|scope| {
        scope.spawn(|| one_way(caller, service));
        one_way(service, caller);
    });
    Ok(())
}

fn one_way(mut from: &TcpStream, mut to: &TcpStream) {
    // A broken side ends the other one too.
    drop(io::copy(&mut from, &mut to));
    drop(to.shutdown(Shutdown::Write));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_have_another_number_here() {
        let pair = |text: &str| parse_pair(text).ok().map(|pair| (pair.local, pair.port));
        assert_eq!(pair("80"), Some((80, 80)));
        assert_eq!(pair("8080:80"), Some((8080, 80)));
        assert_eq!(pair("0:80"), Some((0, 80)));
        for wrong in ["", "0", "80:0", "65536", "a:80", "1:2:3", "80:", ":80"] {
            assert_eq!(pair(wrong), None, "{wrong}");
        }
    }
}

//! Ports of this machine that lead to ports of a sandbox, as long as this process lives.

use std::collections::HashSet;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use warren_core::SandboxId;
use warren_wire::client::Client;
use warren_wire::guest::{CHUNK, CallSender, Connection, FrameKind, Reply, Request};

use crate::error::CliError;
use crate::local::Local;
use crate::ui;

/// Connections of one command at a time. Each has two threads.
const MOST_CONNECTIONS: usize = 512;

/// The pause after the machine ran out of descriptors or threads.
const REST: Duration = Duration::from_millis(100);

/// A port here and one in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    /// The address to listen on, if it was named.
    address: Option<IpAddr>,
    local: u16,
    pub(crate) port: u16,
}

/// Reads `PORT`, `LOCAL:PORT` or `ADDRESS:LOCAL:PORT`.
pub(crate) fn parse_pair(text: &str) -> Result<Pair, String> {
    let form = || "write PORT or LOCAL:PORT, with numbers up to 65535".to_owned();
    let ports = text.strip_suffix("/tcp").unwrap_or(text);
    if ports.contains('/') {
        return Err("only TCP is carried".to_owned());
    }
    let (rest, port) = ports.rsplit_once(':').unwrap_or((ports, ports));
    let (address, local) = match rest.rsplit_once(':') {
        Some((address, local)) => (Some(address.trim_matches(['[', ']'])), local),
        None => (None, rest),
    };
    let address = address.map(str::parse).transpose().map_err(|_| form())?;
    match (local.parse(), port.parse()) {
        (Ok(local), Ok(port)) if port != 0 => Ok(Pair { address, local, port }),
        _ => Err(form()),
    }
}

/// The way to a sandbox.
pub(crate) trait Way: Send + Sync + 'static {
    /// Carries the caller's connection to a port of the sandbox until both ways have ended.
    fn carry(&self, caller: &TcpStream, port: u16) -> Result<(), CliError>;
}

/// Sockets that listen here, each for a port of a sandbox.
pub(crate) struct Doors(Vec<(TcpListener, u16)>);

impl Doors {
    /// Listens on this address, or on loopback.
    pub(crate) fn open(pairs: &[Pair], bind: Option<IpAddr>, id: &SandboxId) -> Result<Self, CliError> {
        pairs.iter().map(|pair| listen(*pair, bind, id)).collect::<Result<_, _>>().map(Self)
    }

    /// Accepts connections on threads that end with this process.
    pub(crate) fn serve(self, way: &Arc<impl Way>) -> Vec<JoinHandle<()>> {
        let state = Arc::new(State::default());
        let serve = |(listener, port): (TcpListener, u16)| {
            let (way, state) = (Arc::clone(way), Arc::clone(&state));
            std::thread::spawn(move || accept(&way, &state, &listener, port))
        };
        self.0.into_iter().map(serve).collect()
    }
}

fn listen(pair: Pair, bind: Option<IpAddr>, id: &SandboxId) -> Result<(TcpListener, u16), CliError> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let address = SocketAddr::new(pair.address.or(bind).unwrap_or(loopback), pair.local);
    let listener = TcpListener::bind(address).map_err(|error| {
        CliError::new(error)
            .hint(format!("{address} cannot be listened on: choose another port with LOCAL:{}", pair.port))
    })?;
    let bound = listener.local_addr().map_err(CliError::new)?;
    ui::say(&format!("{bound} is port {} of {id}", pair.port));
    Ok((listener, pair.port))
}

#[derive(Default)]
struct State {
    open: AtomicUsize,
    /// Complaints that were made, so that each is made once.
    told: Mutex<HashSet<String>>,
}

/// Accepts connections as long as this process lives.
fn accept(way: &Arc<impl Way>, state: &Arc<State>, listener: &TcpListener, port: u16) {
    loop {
        while state.open.load(Ordering::Relaxed) >= MOST_CONNECTIONS {
            std::thread::sleep(REST);
        }
        let Ok((caller, _)) = listener.accept() else {
            std::thread::sleep(REST);
            continue;
        };
        state.open.fetch_add(1, Ordering::Relaxed);
        let (way, held) = (Arc::clone(way), Arc::clone(state));
        let carried = std::thread::Builder::new().name("caller".to_owned()).spawn(move || {
            if let Err(error) =
                caller.set_nodelay(true).map_err(CliError::new).and_then(|()| way.carry(&caller, port))
            {
                held.tell(port, &error);
            }
            held.open.fetch_sub(1, Ordering::Relaxed);
        });
        if carried.is_err() {
            state.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl State {
    fn tell(&self, port: u16, error: &CliError) {
        let text = format!("port {port}: {}", error.chain());
        let mut told = self.told.lock();
        if told.insert(text.clone()) {
            ui::complain(&text);
        }
    }
}

/// The way through the server.
pub(crate) struct Service {
    pub(crate) client: Client,
    pub(crate) id: SandboxId,
}

impl Way for Service {
    fn carry(&self, caller: &TcpStream, port: u16) -> Result<(), CliError> {
        let service = self.client.connect_port(self.id.as_str(), port)?;
        // A connection that breaks is no failure of the command.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // A broken side ends the other one too.
                drop(io::copy(&mut &*caller, &mut &service));
                drop(service.end());
            });
            drop(io::copy(&mut &service, &mut &*caller));
            drop(caller.shutdown(Shutdown::Write));
        });
        Ok(())
    }
}

/// The way to a sandbox that this process made.
pub(crate) struct Agent {
    pub(crate) local: Arc<Local>,
    pub(crate) id: SandboxId,
}

impl Way for Agent {
    fn carry(&self, caller: &TcpStream, port: u16) -> Result<(), CliError> {
        let stream = self.local.dial(&self.id)?;
        let mut sender = CallSender::new(stream.try_clone().map_err(CliError::new)?);
        let mut call = Connection::open(stream, &Request::Connect { port })?;
        match call.reply()? {
            Reply::Done => {}
            _ => return Err(CliError::new("the agent answered a connection with something else")),
        }
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut caller, mut buffer) = (caller, vec![0; CHUNK]);
                while let Ok(count @ 1..) = caller.read(&mut buffer) {
                    if sender.send_data(&buffer[..count]).is_err() {
                        return;
                    }
                }
                drop(sender.send_end());
            });
            let mut out = caller;
            while let Ok(Some(frame)) = call.next_frame() {
                let passed = match frame.kind {
                    FrameKind::Data => out.write_all(&frame.payload),
                    FrameKind::End => out.shutdown(Shutdown::Write),
                    _ => Ok(()),
                };
                if passed.is_err() {
                    break;
                }
            }
            drop(call.stream().shutdown(Shutdown::Both));
            drop(out.shutdown(Shutdown::Both));
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_have_another_number_and_address_here() {
        let pair = |text: &str| parse_pair(text).ok().map(|pair| (pair.local, pair.port));
        assert_eq!(pair("80"), Some((80, 80)));
        assert_eq!(pair("8080:80"), Some((8080, 80)));
        assert_eq!(pair("0:80/tcp"), Some((0, 80)));
        let named = |text: &str| parse_pair(text).unwrap().address.map(|address| address.to_string());
        assert_eq!(named("127.0.0.2:8080:80").as_deref(), Some("127.0.0.2"));
        assert_eq!(named("[::1]:8080:80").as_deref(), Some("::1"));
        assert_eq!(named("8080:80"), None);
        for wrong in ["", "0", "80:0", "65536", "a:80", "x:2:3", "80:", ":80", "80/udp"] {
            assert_eq!(pair(wrong), None, "{wrong}");
        }
    }
}

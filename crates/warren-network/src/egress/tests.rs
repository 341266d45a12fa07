//! The proxy on loopback: sandboxes are addresses in 127.0.2.0/24, the world is 127.0.1.0/24, and
//! where a connection was going is said by the test.

mod asking;
mod changes;
mod faults;
mod floods;
mod http1;
mod http2;
mod raw;
mod redirected;
mod secrets;
mod servers;
mod speed;
mod tls;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;
use warren_core::network::{NetworkEntry, NetworkPolicy};
use warren_core::{NetworkObserver, Owner, SandboxId};

use super::*;
use crate::book::Guest;

/// Excepted from what is closed, for the tests' servers to be there.
const WORLD: &str = "127.0.1.0/24";
/// Longer than anything takes on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(60);
const GATEWAY: &str = "169.254.77.1";

/// A proxy with everything around it.
struct Stage {
    egress: Arc<Egress>,
    proxy: SocketAddr,
    goals: Arc<Mutex<HashMap<SocketAddr, SocketAddr>>>,
    names: Arc<Mutex<HashMap<HostName, Vec<IpAddr>>>>,
    heard: Arc<Heard>,
    serving: JoinHandle<io::Result<()>>,
}

#[derive(Default)]
struct Heard(Mutex<Vec<NetworkEntry>>);

impl NetworkObserver for Heard {
    fn saw(&self, _: &SandboxId, entry: NetworkEntry) {
        self.0.lock().push(entry);
    }
}

/// How a stage differs from the usual one.
struct Setting {
    ask_patience: Duration,
    dial_patience: Duration,
    /// An address that the machine says is its own.
    own: Option<IpAddr>,
    edge: Option<MakeEdge>,
}

type MakeEdge = Box<dyn FnOnce(&Arc<Book>) -> Arc<Edge>>;

impl Default for Setting {
    fn default() -> Self {
        Self {
            ask_patience: Duration::from_millis(400),
            dial_patience: Duration::from_millis(500),
            own: None,
            edge: None,
        }
    }
}

impl Stage {
    fn new() -> Self {
        Self::set(Setting::default())
    }

    fn set(setting: Setting) -> Self {
        let exceptions = vec![WORLD.parse().unwrap()];
        let book = Arc::new(Book::new(exceptions.clone()));
        let heard = Arc::new(Heard::default());
        book.observe(Arc::clone(&heard) as Arc<dyn NetworkObserver>);
        let goals = Arc::new(Mutex::new(HashMap::new()));
        let names = Arc::new(Mutex::new(HashMap::new()));
        let own = setting.own;
        let edge = setting.edge.map(|make| make(&book));
        let dialer = Dialer {
            is_own: Box::new(move |address| Ok(Some(address) == own)),
            subnet: "10.213.0.0/16".parse().unwrap(),
            exceptions: if own.is_some() { vec!["127.0.1.0/25".parse().unwrap()] } else { exceptions },
            patience: setting.dial_patience,
        };
        let egress = Arc::new(Egress {
            reporter: Arc::new(Reporter::new(Arc::clone(&book))),
            book,
            dialer,
            resolve: resolver(&names),
            destination: destinations(&goals),
            ask_patience: setting.ask_patience,
            edge,
            meters: Arc::default(),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = listener.local_addr().unwrap();
        let serving = tokio::spawn(Arc::clone(&egress).serve(listener));
        Self { egress, proxy, goals, names, heard, serving }
    }

    /// A sandbox with the last byte of its address.
    fn guest(&self, last: u8, policy: &str) -> Arc<Guest> {
        let id = format!("sbxh77777777777777777777{last:05}").replace(['0', '1', '8', '9'], "a");
        let guest = Guest::new(
            id.parse().unwrap(),
            Owner::first(),
            vec![[127, 0, 2, last].into()],
            &[self::policy(policy)],
        );
        self.egress.book.enter(guest)
    }

    /// A connection of a sandbox to where it likes.
    async fn connect(&self, guest: &Guest, goal: impl Into<SocketAddr>) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(guest.addresses[0], 0)).unwrap();
        self.goals.lock().insert(socket.local_addr().unwrap(), goal.into());
        let stream = socket.connect(self.proxy).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// The world answers for a name with these.
    fn resolves(&self, name: &str, addresses: &[IpAddr]) {
        self.names.lock().insert(name.parse().unwrap(), addresses.to_vec());
    }

    /// The reports, once all of them must have been made.
    async fn told(&self) -> Vec<(NetworkVerdict, Option<String>, String)> {
        tokio::time::sleep(Duration::from_millis(400)).await;
        self.told_yet()
    }

    fn told_yet(&self) -> Vec<(NetworkVerdict, Option<String>, String)> {
        let heard = self.heard.0.lock();
        heard.iter().map(|entry| (entry.verdict, entry.host.clone(), entry.rule.clone())).collect()
    }

    async fn assert_told(&self, verdict: NetworkVerdict, host: Option<&str>, rule: &str) {
        for _ in 0..6000 {
            let told = self.told_yet();
            if told
                .iter()
                .any(|(was, name, why)| *was == verdict && name.as_deref() == host && why.contains(rule))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{verdict:?} {host:?} {rule}: {:?}", self.told_yet());
    }

    /// Waits until so many connections of the sandbox are being passed on.
    async fn assert_proxied(&self, guest: &Guest, expected: u64) {
        for _ in 0..6000 {
            if guest.figures.proxied.load(Ordering::Relaxed) == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} connections and not {expected}", guest.figures.proxied.load(Ordering::Relaxed));
    }

    /// Every place is free again.
    async fn assert_idle(&self, guest: &Guest) {
        self.assert_proxied(guest, 0).await;
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn resolver(names: &Arc<Mutex<HashMap<HostName, Vec<IpAddr>>>>) -> Resolve {
    let names = Arc::clone(names);
    Box::new(move |name| {
        let found = names.lock().get(&name).cloned();
        Box::pin(async move {
            let addresses = found.ok_or(UpstreamError::NoSuchName)?;
            Ok(Resolved { addresses, ttl: Duration::from_secs(60), aliases: Vec::new() })
        })
    })
}

fn destinations(goals: &Arc<Mutex<HashMap<SocketAddr, SocketAddr>>>) -> Destination {
    let goals = Arc::clone(goals);
    Box::new(move |stream| {
        let goal = goals.lock().get(&stream.peer_addr()?).copied();
        goal.ok_or_else(|| io::ErrorKind::NotFound.into())
    })
}

fn policy(text: &str) -> NetworkPolicy {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn set(guest: &Guest, text: &str) {
    guest.policies.send_replace(Arc::from([policy(text)]));
}

fn pin(guest: &Guest, name: &str, address: IpAddr) {
    guest.pins.pin(&name.parse().unwrap(), &[address], Duration::from_secs(60));
}

fn gateway(port: u16) -> SocketAddr {
    SocketAddr::new(GATEWAY.parse().unwrap(), port)
}

/// Everything that comes until the other side ends, and whether it ended well.
async fn read_all(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let reading = stream.read_to_end(&mut bytes);
    let ended = tokio::time::timeout(PATIENCE, reading).await.expect("it ends in time");
    (bytes, ended.is_ok())
}

/// True if it ended with a reset, and nothing was said before.
async fn is_reset(stream: &mut TcpStream) -> bool {
    let (bytes, ended_well) = read_all(stream).await;
    bytes.is_empty() && !ended_well
}

/// Sends something and reads as many bytes as are expected.
async fn exchange(stream: &mut TcpStream, said: &[u8], expected: usize) -> Vec<u8> {
    stream.write_all(said).await.unwrap();
    let mut answer = vec![0; expected];
    let reading = stream.read_exact(&mut answer);
    tokio::time::timeout(PATIENCE, reading).await.expect("an answer in time").expect("an answer");
    answer
}

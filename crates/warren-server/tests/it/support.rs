//! A server that a test owns, and a client that says whatever it is told to.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use warren_core::{Capabilities, IsolationKind, Owner, Scope};
use warren_engine::{AbsentBackend, Engine, Parts, Settings};
use warren_server::config::Config;
use warren_server::{LinkKeys, Server, ServerParts, Sockets};
use warren_store::TemplateStore;
use warren_testkit::{
    FakeBuildFiles, FakeClock, FakeIsolation, FakeNetworks, FakeRandom, FakeTemplates, MemoryCatalog,
};

/// Long enough for anything that is not meant to fail.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a port of its own. Dropping it ends it.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    /// A key that may do everything, of the owner `default`.
    pub(crate) admin: String,
    pub(crate) isolation: Arc<FakeIsolation>,
    /// A second backend, `wall`, with a kernel of its own. Only of [`TestServer::walled`].
    pub(crate) wall: Option<Arc<FakeIsolation>>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) networks: Arc<FakeNetworks>,
    pub(crate) catalog: Arc<MemoryCatalog>,
    server: Server,
    /// Dropped last: everything above lives in it.
    runtime: Option<Runtime>,
    _templates: TempDir,
}

/// The backends of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backends {
    One,
    Several,
}

impl TestServer {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// With settings of the test's own.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::over(FakeNetworks::new(), Backends::One, change)
    }

    /// With two backends, and one that cannot be opened.
    pub(crate) fn walled() -> Self {
        Self::over(FakeNetworks::new(), Backends::Several, |_| {})
    }

    /// On a machine on which no sandbox can have a network.
    pub(crate) fn without_networks() -> Self {
        let networks = FakeNetworks::new();
        networks.break_down("a test");
        Self::over(networks, Backends::One, |_| {})
    }

    fn over(networks: Arc<FakeNetworks>, backends: Backends, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let directory = tempfile::tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (isolation, catalog) = (FakeIsolation::new(), Arc::new(MemoryCatalog::new()));
        let (clock, random) = (Arc::new(FakeClock::new()), Arc::new(FakeRandom::new(1)));
        let able = Capabilities { isolation: IsolationKind::UserKernel, ..FakeIsolation::everything() };
        let wall = (backends == Backends::Several).then(|| isolation.beside("wall", able));
        let vault = AbsentBackend { name: "vault".to_owned(), why: "its program is not there".to_owned() };
        let open = std::iter::once(&isolation).chain(&wall).map(|backend| Arc::clone(backend) as _);
        let parts = Parts {
            backends: open.collect(),
            absent: wall.iter().map(|_| vault.clone()).collect(),
            catalog: catalog.clone(),
            templates: Arc::new(FakeTemplates::new()),
            layers: isolation.layers(),
            build_files: Arc::new(FakeBuildFiles::default()),
            networks: networks.clone(),
            clock: clock.clone(),
            random: random.clone(),
            passed: Arc::new(|_| {}),
        };
        isolation.allow_mounts(config.mounts.allow.clone());
        let settings = Settings::default();
        let engine = runtime.block_on(Engine::open(parts, settings)).unwrap();
        let server = Server::new(ServerParts {
            engine,
            catalog: catalog.clone(),
            templates: TemplateStore::open(directory.path()).unwrap(),
            clock: clock.clone(),
            link_keys: LinkKeys::random(&FakeRandom::new(2)),
            random,
            config,
            networks: networks.clone(),
        })
        .unwrap();
        let admin = server.create_key(Owner::first(), "test", Scope::Admin).unwrap();
        let socket = runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = socket.local_addr().unwrap();
        runtime.spawn(server.clone().run(socket));
        Self {
            address,
            admin,
            isolation,
            wall,
            clock,
            networks,
            catalog,
            server,
            runtime: Some(runtime),
            _templates: directory,
        }
    }

    /// A new key.
    pub(crate) fn key(&self, owner: &str, scope: Scope) -> String {
        self.server.create_key(owner.parse().unwrap(), "test", scope).unwrap()
    }

    /// A request with the administrator's key.
    pub(crate) fn call(&self, method: &str, path: &str) -> Call {
        self.stranger(method, path).key(&self.admin)
    }

    /// A request without any key.
    pub(crate) fn stranger(&self, method: &str, path: &str) -> Call {
        let line = format!("{method} {path} HTTP/1.1");
        let host = format!("Host: {}", self.address);
        Call { address: self.address, lines: vec![line, host, "Connection: close".to_owned()], body: None }
    }

    /// A request to another host than the server's own, without any key.
    pub(crate) fn visitor(&self, method: &str, path: &str, host: &str) -> Call {
        self.stranger(method, path).without("Host").header("Host", host)
    }

    /// A connection on which the test says what it likes.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Has the server listen in another place too, for the E2B protocol alone.
    pub(crate) fn listen_for_e2b(&self) -> SocketAddr {
        let runtime = self.runtime.as_ref().unwrap();
        let bind = || runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let (main, e2b) = (bind(), bind());
        let address = e2b.local_addr().unwrap();
        runtime.spawn(self.server.clone().run_on(Sockets { main, tls: None, e2b: Some(e2b) }));
        address
    }

    /// Begins to shut down, and does not wait.
    pub(crate) fn begin_shutdown(&self) {
        self.server.shutdown().cancel();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.server.shutdown().cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

/// A request that is being put together.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    address: SocketAddr,
    lines: Vec<String>,
    body: Option<Vec<u8>>,
}

impl Call {
    /// The same to another listener.
    pub(crate) fn at(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("Authorization", &format!("Bearer {key}"))
    }

    /// Adds a header, even if there is one of the name.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.lines.push(format!("{name}: {value}"));
        self
    }

    /// Leaves out a header.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.lines.retain(|line| line.split(':').next() != Some(name));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json").body(body.to_string().into_bytes())
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// The bytes of the request.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut head = self.lines.join("\r\n");
        if let Some(body) = &self.body {
            write!(head, "\r\nContent-Length: {}", body.len()).unwrap();
        }
        head.push_str("\r\n\r\n");
        [head.as_bytes(), self.body.as_deref().unwrap_or_default()].concat()
    }

    /// Sends it and reads the whole answer, which is not the API's.
    pub(crate) fn pass(&self) -> Answer {
        let mut stream = self.open();
        let mut bytes = Vec::new();
        // A server that has said all it wants may reset what it did not read.
        drop(stream.read_to_end(&mut bytes));
        Answer::parse(&bytes)
    }

    /// Sends it and reads the whole answer, which must be one that the API's document has.
    pub(crate) fn send(&self) -> Answer {
        let answer = self.pass();
        let mut line = self.lines[0].split(' ');
        let (method, target) = (line.next().unwrap_or_default(), line.next().unwrap_or_default());
        crate::contract::check(method, target, answer.status, answer.header("content-type"), &answer.body);
        answer
    }

    /// Sends it, and leaves the answer to be read.
    pub(crate) fn open(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        drop(stream.write_all(&self.bytes()));
        stream
    }
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Takes an answer apart.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, _) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but {text:?}"));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status line");
        let mut answer = Self { status, head: head.to_owned(), body: bytes[head.len() + 4..].to_vec() };
        if answer.header("transfer-encoding").is_some_and(|value| value == "chunked") {
            answer.body = unchunked(&answer.body);
        }
        answer
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}\n{text}", self.status))
    }

    /// The problem's code, if the answer is one.
    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The field that a problem is about.
    pub(crate) fn field(&self) -> String {
        self.json()["field"].as_str().unwrap_or_default().to_owned()
    }

    /// Insists on a status.
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") {
        let size =
            std::str::from_utf8(&bytes[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(size) = size.filter(|size| *size > 0 && end + 2 + size <= bytes.len()) else { break };
        body.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = bytes.get(end + 4 + size..).unwrap_or_default();
    }
    body
}

/// At once, as far as a busy machine lets one see: what is told apart from it takes a minute.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Waits until the server has read all that was sent on the connection.
pub(crate) fn until_read(stream: &TcpStream) {
    let hex = |address: SocketAddr| match address {
        SocketAddr::V4(address) => {
            format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
        }
        SocketAddr::V6(_) => unreachable!("tests listen on IPv4"),
    };
    let (near, far) = (hex(stream.local_addr().unwrap()), hex(stream.peer_addr().unwrap()));
    let empty = |table: &str, local: &str, remote: &str| {
        let queues = table.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.get(1..3)? == [local, remote]).then(|| words[4] == "00000000:00000000")
        });
        queues.unwrap_or_default()
    };
    eventually("the server reads", || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        // What is on the way stands in the sender's queue.
        empty(&table, &near, &far) && empty(&table, &far, &near)
    });
}

/// Waits for what is bound to happen, however busy the machine is.
pub(crate) fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the peer closes the connection, and says how long that took.
pub(crate) fn until_closed(stream: &mut impl std::io::Read) -> Duration {
    let began = Instant::now();
    let mut bytes = [0; 4096];
    while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    began.elapsed()
}

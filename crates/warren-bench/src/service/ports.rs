//! The cost of reaching an application in a sandbox from outside: requests through the proxy beside
//! ones on a connection straight into the sandbox's network, the number of requests per second, and
//! the server's memory for idle web sockets.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use warren_wire::api::{Command, SetPort, StartProcess};
use warren_wire::client::Client;

use super::server::Server;
use super::{OWN, create_plain};
use crate::engine::Engine;
use crate::errand::{Tally, Work};
use crate::plan::Case;
use crate::report::Figures;
use crate::rounds::{Contender, race};
use crate::session::Session;
use crate::statistics::Lap;

const PORT: u16 = 8000;

/// A server as small as can be: it takes all that arrives at once for one request.
const APPLICATION: &str = "
import select, socket
listener = socket.create_server(('127.0.0.1', 8000), backlog=1024)
queue, callers = select.epoll(), {}
queue.register(listener, select.EPOLLIN)
answer = b'HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello'
upgrade = b'HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n'
while True:
    for number, _ in queue.poll():
        if number == listener.fileno():
            caller, _ = listener.accept()
            caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            callers[caller.fileno()] = caller
            queue.register(caller, select.EPOLLIN)
            continue
        try:
            request = callers[number].recv(65536)
            callers[number].send(upgrade if b'upgrade: websocket' in request.lower() else answer) if request else 0
        except OSError:
            request = b''
        if not request:
            queue.unregister(number)
            callers.pop(number).close()
";

/// Requests of one lap: one alone is too short to be timed.
const EACH_LAP: u32 = 50;
const CLIENTS: usize = 32;
const IDLE: usize = 500;

/// The time that the application may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn measure(session: &mut Session<'_>, server: &Server, client: &Client) -> anyhow::Result<()> {
    if ![Case::PortRequest, Case::PortRequestsPerSecond, Case::PortIdle]
        .iter()
        .any(|case| session.wants(*case))
    {
        return Ok(());
    }
    session.progress("starting an application");
    let site = Site::start(client)?;
    let measured = all(session, server, &site);
    client.delete_sandbox(&site.id)?;
    measured
}

fn all(session: &mut Session<'_>, server: &Server, site: &Site) -> anyhow::Result<()> {
    // Before others leave memory that can be used again.
    if session.wants(Case::PortIdle) {
        idle(session, server, site)?;
    }
    if session.wants(Case::PortRequest) {
        requests(session, server, site)?;
    }
    if session.wants(Case::PortRequestsPerSecond) {
        per_second(session, site)?;
    }
    Ok(())
}

/// One client, on connections that stay, taking turns.
fn requests(session: &mut Session<'_>, server: &Server, site: &Site) -> anyhow::Result<()> {
    let (mut through, mut straight) = (site.caller()?, Caller::new(site.straight(server)?, "app"));
    let field = vec![
        Contender::new("direct", move || straight.lap()),
        Contender::new("proxied", move || through.lap()),
    ];
    race(session, "port_request", field)
}

fn per_second(session: &mut Session<'_>, site: &Site) -> anyhow::Result<()> {
    let case = format!("port_requests_per_second_{CLIENTS}");
    session.progress(&case);
    let work = Work { workers: CLIENTS, window: session.plan.sizes.window };
    let window = |session: &Session<'_>| {
        work.share(&session.stop, |_| {
            let mut caller = site.caller();
            move || -> anyhow::Result<()> {
                match &mut caller {
                    Ok(caller) => caller.ask(),
                    Err(error) => Err(anyhow::anyhow!("{error:#}")),
                }
            }
        })
    };
    let windows: Vec<Tally> =
        (0..session.plan.sizes.windows).map(|_| window(session)).collect::<anyhow::Result<_>>()?;
    session.enter_rate(&case, OWN, &windows);
    Ok(())
}

fn idle(session: &mut Session<'_>, server: &Server, site: &Site) -> anyhow::Result<()> {
    session.progress(&format!("{IDLE} idle web sockets"));
    let before = server.memory_kib();
    let open = (0..IDLE).map(|_| site.web_socket()).collect::<Result<Vec<_>, _>>()?;
    let grown = server.memory_kib().saturating_sub(before);
    drop(open);
    let figures = Figures::Memory { kib_each: grown as f64 / IDLE as f64, uncertain_kib: 0.0 };
    session.enter(&format!("port_idle_{IDLE}"), OWN, IDLE, figures);
    Ok(())
}

/// A sandbox with an application that everybody may use.
struct Site {
    id: String,
    address: String,
    host: String,
}

impl Site {
    fn start(client: &Client) -> anyhow::Result<Self> {
        let id = create_plain(client)?;
        let words = ["python3", "-c", APPLICATION].map(str::to_owned).to_vec();
        client.start_process(
            &id,
            &StartProcess { command: Command::Words(words), ..StartProcess::default() },
        )?;
        let port = client.set_port(&id, PORT, &SetPort { public: true, ..SetPort::default() })?;
        let address = client.base().trim_start_matches("http://").to_owned();
        let site = Self { id, address, host: port.host };
        let begun = Instant::now();
        loop {
            match site.caller().and_then(|mut caller| caller.ask()) {
                Ok(()) => return Ok(site),
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn connect(&self) -> anyhow::Result<TcpStream> {
        Ok(TcpStream::connect(&self.address)?)
    }

    /// A client of the proxy.
    fn caller(&self) -> anyhow::Result<Caller> {
        Ok(Caller::new(self.connect()?, &self.host))
    }

    /// A connection past the proxy, over a socket of the sandbox's own network.
    fn straight(&self, server: &Server) -> anyhow::Result<TcpStream> {
        let socket = Engine::socket_of(&server.data_dir(), &self.id.parse()?)?;
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(false)?;
        rustix::net::connect(&stream, &SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)))?;
        Ok(stream)
    }

    fn web_socket(&self) -> anyhow::Result<TcpStream> {
        let mut stream = self.connect()?;
        let head = format!(
            "GET /ws HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            self.host
        );
        stream.write_all(head.as_bytes())?;
        read_head(&mut stream, "101").map(|()| stream)
    }
}

/// A client that asks again and again on one connection.
struct Caller {
    stream: TcpStream,
    request: Vec<u8>,
}

impl Caller {
    fn new(stream: TcpStream, host: &str) -> Self {
        // Without it the figures are the kernel's delays.
        drop(stream.set_nodelay(true));
        Self { stream, request: format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes() }
    }

    fn ask(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&self.request)?;
        read_head(&mut self.stream, "200")
    }

    fn lap(&mut self) -> anyhow::Result<Lap> {
        let begun = Instant::now();
        for _ in 0..EACH_LAP {
            self.ask()?;
        }
        Ok(Lap::of(begun.elapsed() / EACH_LAP))
    }
}

/// Reads an answer, whose body is short enough to come with its head.
fn read_head(stream: &mut TcpStream, status: &str) -> anyhow::Result<()> {
    let mut answer = [0; 4096];
    let mut length = 0;
    loop {
        let count = stream.read(&mut answer[length..])?;
        length += count;
        let text = String::from_utf8_lossy(&answer[..length]);
        let whole =
            if status == "101" { text.ends_with("\r\n\r\n") } else { text.ends_with("\r\n\r\nhello") };
        if whole && text.split(' ').nth(1) == Some(status) {
            return Ok(());
        }
        if count == 0 || length == answer.len() || text.contains("\"message\"") {
            anyhow::bail!("an answer of another kind: {text}");
        }
    }
}

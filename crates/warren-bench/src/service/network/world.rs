use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::errand::output_of;
use crate::ground::Ground;

/// A name that the world's resolver knows.
pub(super) const NAME: &str = "web.test";
/// The resolver's address, for the server's settings.
pub(crate) const RESOLVER: &str = "198.51.100.53";
/// The amount that is sent in one go.
pub(super) const SENT_MB: f64 = 512.0;

/// Sends and waits until all has arrived. The bytes are no text, which might be the beginning of a
/// request and has to name whom it is for.
pub(super) const SEND: &str = "
import socket, time
try: socket.gethostbyname('web.test')
except OSError: pass
s = socket.create_connection(('198.51.100.10', 9))
piece = bytes(1 << 20)
began = time.perf_counter()
for _ in range(512): s.sendall(piece)
s.shutdown(socket.SHUT_WR); s.recv(1)
print(time.perf_counter() - began)
";

/// The median of connections, each with a request and its answer.
pub(super) const CONNECT: &str = "
import socket, statistics, time
try: socket.gethostbyname('web.test')
except OSError: pass
times = []
for _ in range(200):
    began = time.perf_counter()
    s = socket.create_connection(('198.51.100.10', 80))
    s.sendall(b'GET / HTTP/1.1\\r\\nHost: web.test\\r\\nConnection: close\\r\\n\\r\\n')
    while s.recv(4096): pass
    times.append(time.perf_counter() - began)
    s.close()
print(statistics.median(times))
";

/// Answers questions, takes bytes, and answers requests.
const SERVE: &str = "
import socket, struct, sys, threading
def resolver():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('198.51.100.53', 53))
    while True:
        q, peer = s.recvfrom(512)
        at = 12
        while q[at]: at += 1 + q[at]
        question, kind = q[12:at + 5], q[at + 2]
        answers = b'' if kind != 1 else b'\\xc0\\x0c' + struct.pack('!HHIH', 1, 1, 300, 4) + socket.inet_aton('198.51.100.10')
        s.sendto(q[:2] + struct.pack('!5H', 0x8580, 1, 1 if answers else 0, 0, 0) + question + answers, peer)
def sink(c):
    piece = bytearray(1 << 20)
    while c.recv_into(piece): pass
    c.send(b'.'); c.close()
def web(c):
    try:
        c.recv(4096); c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok')
    finally: c.close()
def listen(port, serve):
    s = socket.create_server(('198.51.100.10', port), backlog=512)
    while True:
        c, _ = s.accept()
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if port == 80: serve(c)
        else: threading.Thread(target=serve, args=(c,), daemon=True).start()
for work in ((resolver,), (listen, 9, sink), (listen, 80, web)):
    threading.Thread(target=work[0], args=work[1:]).start()
print('ready', flush=True)
";

/// A namespace with servers, and another one beside the sandboxes. Dropping this removes both.
#[derive(Debug)]
pub(super) struct World {
    server: Child,
}

impl World {
    pub(super) fn new(ground: &Ground) -> anyhow::Result<Self> {
        drop(shell(REMOVE));
        shell(MAKE)?;
        let ready = ground.file("world.ready");
        let out = std::fs::File::create(&ready)?;
        let server = Command::new("nsenter")
            .args(["--net=/run/netns/wbench-world", "python3", "-c", SERVE])
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::null())
            .spawn()?;
        let world = Self { server };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            if std::fs::read_to_string(&ready).is_ok_and(|text| text.contains("ready")) {
                return Ok(world);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(anyhow::anyhow!("the world's servers did not start"))
    }

    /// Runs a program in the namespace beside the sandboxes.
    pub(super) fn beside(&self, script: &str) -> anyhow::Result<String> {
        let words = ["--net=/run/netns/wbench-peer", "python3", "-c", script];
        output_of(Command::new("nsenter").args(words))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
        drop(shell(REMOVE));
    }
}

const MAKE: &str = "set -e
ip netns add wbench-world; ip netns add wbench-peer
ip link add wbench0 type veth peer name eth0 netns wbench-world
ip addr add 203.0.113.1/30 dev wbench0; ip link set wbench0 up
ip -n wbench-world addr add 203.0.113.2/30 dev eth0; ip -n wbench-world link set eth0 up; ip -n wbench-world link set lo up
ip -n wbench-world addr add 198.51.100.10/32 dev lo; ip -n wbench-world addr add 198.51.100.53/32 dev lo
ip route add 198.51.100.0/24 via 203.0.113.2
ip link add wbench1 type veth peer name eth0 netns wbench-peer
ip addr add 203.0.113.5/30 dev wbench1; ip link set wbench1 up
ip -n wbench-peer addr add 203.0.113.6/30 dev eth0; ip -n wbench-peer link set eth0 up; ip -n wbench-peer link set lo up
ip -n wbench-peer route add default via 203.0.113.5
nft add table ip wbench
nft 'add chain ip wbench out { type nat hook postrouting priority 100 ; }'
nft add rule ip wbench out ip saddr 203.0.113.6 masquerade";

const REMOVE: &str = "ip netns del wbench-world; ip netns del wbench-peer; ip link del wbench0; ip link del wbench1; nft delete table ip wbench; true";

fn shell(script: &str) -> anyhow::Result<()> {
    output_of(Command::new("sh").args(["-c", script])).map(drop)
}

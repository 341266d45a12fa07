//! The whole of it, in namespaces of the tests' own: links, rules and proxies, with a real Internet
//! at the other end.

mod domains;
mod leases;
mod life;
mod many;
mod names;
mod policy;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use warren_core::network::{NetworkEntry, NetworkMode};
use warren_core::{NetworkObserver, NetworkPolicy, Networks, Owner, SandboxId};

use super::*;
use crate::namespace;
use crate::world::{INTERNET, World, run};

const PATIENCE: Duration = Duration::from_secs(2);
/// For what has to come: a busy machine may stop for seconds at any line.
const LONG: Duration = Duration::from_secs(60);

fn options(data: &Path, kind: DomainKind) -> NetworkOptions {
    NetworkOptions {
        data_dir: data.to_owned(),
        kind,
        subnet: "10.213.0.0/16".parse().unwrap(),
        dns: vec!["192.0.2.1:53".parse().unwrap()],
        exceptions: Vec::new(),
        ask_patience: Duration::from_secs(1),
        prepared: 2,
        extra_ca: None,
        secrets: None,
    }
}

fn id(byte: u8) -> SandboxId {
    SandboxId::from_random([byte; 16])
}

fn owner() -> Owner {
    "tester".parse().unwrap()
}

fn policy(mode: NetworkMode, allow: &[&str]) -> NetworkPolicy {
    NetworkPolicy {
        allow: allow.iter().map(|rule| rule.parse().unwrap()).collect(),
        ..NetworkPolicy::of(mode)
    }
}

/// Does something as a sandbox would, in its network.
fn inside<T: Send>(sandbox: &OwnedFd, work: impl FnOnce() -> T + Send) -> T {
    namespace::visit(sandbox.as_fd(), || Ok(work())).unwrap()
}

/// Says on every connection which peer it sees, then repeats what it gets. Counts them.
fn greeter(listener: TcpListener) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        while let Ok((mut stream, peer)) = listener.accept() {
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                drop(writeln!(stream, "{}", peer.ip()));
                let mut copy = stream.try_clone().unwrap();
                drop(std::io::copy(&mut copy, &mut stream));
            });
        }
    });
    count
}

/// Sends back every packet. Counts them.
fn echo(socket: UdpSocket) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            counted.fetch_add(1, Ordering::Relaxed);
            drop(socket.send_to(&buffer[..length], from));
        }
    });
    count
}

/// The greeter's words, if it is reached.
fn greeting(address: &str) -> Option<String> {
    let address: SocketAddr = address.parse().unwrap();
    let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut said = String::new();
    let length = BufReader::new(stream).read_line(&mut said).ok().filter(|length| *length > 0)?;
    Some(said[..length].trim().to_owned())
}

/// True if a packet comes back.
fn echoes(address: &str) -> bool {
    echoes_from(Ipv4Addr::UNSPECIFIED, address)
}

fn echoes_from(source: Ipv4Addr, address: &str) -> bool {
    let Ok(socket) = UdpSocket::bind((source, 0)) else { return false };
    socket.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    let sent = socket.connect(address).and_then(|()| socket.send(b"hello"));
    sent.is_ok() && socket.recv(&mut [0; 64]).is_ok()
}

fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Links and tables of ours, where the calling thread is.
fn left() -> String {
    let links = run("ip", "-br link").unwrap();
    let links: Vec<&str> = links.lines().filter(|line| line.starts_with("wrn")).collect();
    let tables = run("nft", "list tables").unwrap();
    let tables: Vec<&str> = tables.lines().filter(|line| line.contains("warren")).collect();
    let rules = run("ip", "rule").unwrap();
    let rules: Vec<&str> = rules.lines().filter(|line| line.contains("prohibit")).collect();
    [links, tables, rules].concat().join("\n")
}

/// True if only the rules of this block are here, with no link in them.
fn is_kept(block: u8) -> bool {
    let rules = run("nft", &format!("list table inet warren-{block}")).unwrap_or_default();
    // The rules name links by their prefix alone.
    let is_empty = rules.split(&crate::place::link_prefix(block)).skip(1).all(|rest| rest.starts_with('*'));
    let left = left();
    let lines: Vec<&str> = left.lines().collect();
    is_empty && lines.len() == 2 && lines[0].ends_with(&format!("warren-{block}"))
}

/// Keeps what it hears.
#[derive(Default)]
struct Diary(Mutex<Vec<NetworkEntry>>);

impl NetworkObserver for Diary {
    fn saw(&self, _: &SandboxId, entry: NetworkEntry) {
        self.0.lock().push(entry);
    }
}

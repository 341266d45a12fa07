//! A host with a table, sandboxes on links of their own, and an Internet that answers.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warren_core::NetworkPolicy;

use crate::namespace;
use crate::nft::{Hold, LinkRules, Listener, MARK_MASK, Skeleton, Table};
use crate::place::{self, GATEWAY, Place};
use crate::rules::{Reach, Rules};
use crate::world::{World, ip, run};

pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// An attempt that is refused by an answer, and not by silence, takes no longer.
pub(super) const AT_ONCE: Duration = Duration::from_secs(3);

pub(super) const DNS_PORT: u16 = 5300;
pub(super) const EGRESS_PORT: u16 = 8800;
/// Servers of the Internet, besides those of the world.
pub(super) const INTERNET: &str = "192.0.2.1";
pub(super) const INTERNET_V6: &str = "2001:db8:5::5";

pub(super) struct Lab {
    pub(super) world: World,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// A namespace at the end of a link.
pub(super) struct Sandbox {
    pub(super) place: Place,
    pub(super) namespace: OwnedFd,
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Said(String),
    /// By an answer of the network.
    Refused,
    /// Nobody answered in time.
    Silence,
}

impl Lab {
    pub(super) fn new() -> Option<Self> {
        let world = World::new()?;
        world.on_host(|| {
            for setting in ["ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"] {
                namespace::set_sysctl(setting, "0").unwrap();
            }
            namespace::set_sysctl("ipv6/conf/all/forwarding", "1").unwrap();
            for command in [
                "address add 2001:db8:1::2/64 dev up0 nodad",
                "-6 route add default via 2001:db8:1::1",
                &format!("rule add from 10.213.0.0/16 fwmark 0/{MARK_MASK:#x} prohibit"),
                &format!("-6 rule add from fd77:6172:7200::/44 fwmark 0/{MARK_MASK:#x} prohibit"),
            ] {
                ip(command).unwrap();
            }
        });
        world.on_internet(|| {
            ip("address add 2001:db8:1::1/64 dev out0 nodad").unwrap();
            ip(&format!("address add {INTERNET_V6}/128 dev lo nodad")).unwrap();
            ip("route add 10.0.0.0/8 via 198.51.100.2").unwrap();
        });
        Some(Self { world, stop: Arc::default(), threads: Vec::new() })
    }

    /// With a table, and the proxies that it diverts to.
    pub(super) fn with_table() -> Option<(Self, Table)> {
        let mut lab = Self::new()?;
        let table = lab.world.on_host(|| Table::claim(0, "test", Hold::Shared).unwrap());
        table.install(&skeleton()).unwrap();
        let any = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        for address in any {
            lab.serve_tcp(Side::Host, SocketAddr::new(address, EGRESS_PORT), "egress");
            lab.serve_tcp(Side::Host, SocketAddr::new(address, DNS_PORT), "dns");
        }
        lab.serve_udp(Side::Host, SocketAddr::new(GATEWAY.into(), DNS_PORT), "dns");
        Some((lab, table))
    }

    /// Links a sandbox; nothing of it is in the table yet.
    pub(super) fn sandbox(&self, number: u16) -> Sandbox {
        let place = Place { block: 0, number };
        let (namespace, ()) = namespace::make(|_| Ok(())).unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
        let (link, v4, v6) = (place.link(), v4(place), place.v6());
        let (mac, gateway_mac) = (hex(place.mac()), hex(place.gateway_mac()));
        self.world.on_host(|| {
            for command in [
                format!("link add {link} address {gateway_mac} type veth peer name eth0 address {mac} netns {path}"),
                format!("address add {GATEWAY}/32 dev {link}"),
                format!("address add {}/128 dev {link} nodad", place::proxy_v6(0)),
                format!("link set {link} up"),
                format!("address add fe80::77:1/64 dev {link} nodad"),
                format!("route add {v4} dev {link}"),
                format!("-6 route add {v6} dev {link}"),
                format!("neigh replace {v4} lladdr {mac} dev {link} nud permanent"),
                format!("neigh replace {v6} lladdr {mac} dev {link} nud permanent"),
            ] {
                ip(&command).unwrap();
            }
        });
        let sandbox = Sandbox { place, namespace };
        sandbox.inside(|| {
            namespace::set_sysctl("ipv4/ping_group_range", "0 2147483647").unwrap();
            for command in [
                "link set lo up".to_owned(),
                format!("address add {v4}/32 dev eth0"),
                format!("address add {v6}/128 dev eth0 nodad"),
                "link set eth0 up".to_owned(),
                format!("route add {GATEWAY} dev eth0"),
                format!("route add default via {GATEWAY}"),
                "-6 route add default via fe80::77:1 dev eth0".to_owned(),
                format!("neigh replace {GATEWAY} lladdr {gateway_mac} dev eth0 nud permanent"),
                format!("neigh replace fe80::77:1 lladdr {gateway_mac} dev eth0 nud permanent"),
            ] {
                ip(&command).unwrap();
            }
            await_up("eth0");
        });
        self.world.on_host(|| await_up(&link));
        sandbox
    }

    /// Answers every connection with a word, and everything it hears with the same.
    pub(super) fn serve_tcp(&mut self, side: Side, at: SocketAddr, word: &'static str) {
        let listener = self.on(side, || listen(at));
        listener.set_nonblocking(true).unwrap();
        self.serve(move || match listener.accept() {
            Ok((mut stream, _)) => {
                let talk = move || {
                    stream.set_nonblocking(false).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                    let mut heard = [0; 64];
                    let mut go_on = stream.write_all(word.as_bytes()).is_ok();
                    while go_on {
                        go_on = stream.read(&mut heard).is_ok_and(|length| length > 0)
                            && stream.write_all(word.as_bytes()).is_ok();
                    }
                };
                drop(std::thread::spawn(talk));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        });
    }

    pub(super) fn serve_udp(&mut self, side: Side, at: SocketAddr, word: &'static str) {
        let bind = || {
            namespace::set_sysctl("ipv4/ip_nonlocal_bind", "1").unwrap();
            UdpSocket::bind(at).unwrap()
        };
        let socket = self.on(side, bind);
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        self.serve(move || {
            let mut heard = [0; 64];
            if let Ok((_, peer)) = socket.recv_from(&mut heard) {
                drop(socket.send_to(word.as_bytes(), peer));
            }
        });
    }

    fn serve(&mut self, mut turn: impl FnMut() + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                turn();
            }
        }));
    }

    fn on<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> T {
        match side {
            Side::Host => self.world.on_host(work),
            Side::Internet => self.world.on_internet(work),
        }
    }
}

/// Where a server is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    Host,
    Internet,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Sandbox {
    pub(super) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        namespace::visit(self.namespace.as_fd(), || Ok(work())).unwrap()
    }

    pub(super) fn under(&self, policy: &NetworkPolicy) -> LinkRules {
        LinkRules {
            link: self.place.link(),
            mac: self.place.mac(),
            addresses: vec![v4(self.place).into(), self.place.v6().into()],
            rules: Rules::of(std::slice::from_ref(policy), 0),
        }
    }

    /// Connects, and reads what the server says first.
    pub(super) fn tcp(&self, to: &str, port: u16) -> Outcome {
        let to = SocketAddr::new(to.parse().unwrap(), port);
        self.inside(|| {
            let connected = TcpStream::connect_timeout(&to, PATIENCE);
            outcome(connected.and_then(|mut stream| hear(&mut stream)))
        })
    }

    pub(super) fn udp(&self, to: &str, port: u16) -> Outcome {
        let to = SocketAddr::new(to.parse().unwrap(), port);
        self.inside(|| say(&caller(to)))
    }

    /// Sends an echo request and waits for the answer.
    pub(super) fn ping(&self, to: &str) -> Outcome {
        use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};
        let to: IpAddr = to.parse().unwrap();
        self.inside(|| {
            let (family, protocol, kind) = match to {
                IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8),
                IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128),
            };
            let socket = rustix::net::socket(family, SocketType::DGRAM, Some(protocol)).unwrap();
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
            let connected = rustix::net::connect(&socket, &SocketAddr::new(to, 0));
            let echo = [kind, 0, 0, 0, 0, 0, 0, 1, 7, 7];
            let mut answer = [0; 64];
            let sent = connected.and_then(|()| rustix::net::send(&socket, &echo, SendFlags::empty()));
            let heard = sent.and_then(|_| rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty()));
            outcome(heard.map(|_| "echo".to_owned()).map_err(Into::into))
        })
    }
}

/// A link takes packets a moment after it is told to.
fn await_up(link: &str) {
    let end = Instant::now() + PATIENCE;
    while !run("ip", &format!("link show {link}")).unwrap().contains("state UP") {
        assert!(Instant::now() < end, "{link} does not come up");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A socket where the calling thread is, with somebody to talk to.
pub(super) fn caller(to: SocketAddr) -> UdpSocket {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(to).unwrap();
    socket
}

/// Says something and waits for an answer.
pub(super) fn say(socket: &UdpSocket) -> Outcome {
    let mut heard = [0; 64];
    let answer = socket.send(b"?").and_then(|_| socket.recv(&mut heard));
    outcome(answer.map(|length| String::from_utf8_lossy(&heard[..length]).into_owned()))
}

pub(super) fn hear(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut heard = [0; 64];
    let length = stream.read(&mut heard)?;
    Ok(String::from_utf8_lossy(&heard[..length]).into_owned())
}

pub(super) fn outcome(result: std::io::Result<String>) -> Outcome {
    match result {
        Ok(heard) => Outcome::Said(heard),
        Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => Outcome::Silence,
        Err(_) => Outcome::Refused,
    }
}

pub(super) fn said(word: &str) -> Outcome {
    Outcome::Said(word.to_owned())
}

/// An outcome and how long it took.
pub(super) fn timed(attempt: impl FnOnce() -> Outcome) -> (Outcome, Duration) {
    let start = Instant::now();
    (attempt(), start.elapsed())
}

pub(super) fn v4(place: Place) -> Ipv4Addr {
    place.v4("10.213.0.0/16".parse().unwrap())
}

pub(super) fn skeleton() -> Skeleton {
    let listener = |port| Listener {
        v4: SocketAddrV4::new(GATEWAY, port),
        v6: Some(SocketAddrV6::new(place::proxy_v6(0), port, 0, 0)),
    };
    Skeleton {
        subnets: vec!["10.213.0.0/16".parse().unwrap(), "fd77:6172:7200::/44".parse().unwrap()],
        dns: listener(DNS_PORT),
        egress: listener(EGRESS_PORT),
        exceptions: Reach::default(),
    }
}

pub(super) fn policy(text: &str) -> NetworkPolicy {
    let (mode, rules) = text.split_once(' ').unwrap_or((text, ""));
    let (mut policy, mut denied) = (NetworkPolicy::of(mode_of(mode)), false);
    for word in rules.split_whitespace() {
        match word {
            "deny" => denied = true,
            rule if denied => policy.deny.push(rule.parse().unwrap()),
            rule => policy.allow.push(rule.parse().unwrap()),
        }
    }
    policy
}

fn mode_of(word: &str) -> warren_core::NetworkMode {
    use warren_core::NetworkMode::{Allow, Learn, Public};
    match word {
        "public" => Public,
        "allow" => Allow,
        "learn" => Learn,
        other => panic!("no mode {other}"),
    }
}

fn listen(at: SocketAddr) -> TcpListener {
    use rustix::net::{AddressFamily, SocketType, sockopt};
    if at.is_ipv4() {
        return TcpListener::bind(at).unwrap();
    }
    // Beside one for IPv4 on the same port.
    let socket = rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, None).unwrap();
    sockopt::set_ipv6_v6only(&socket, true).unwrap();
    rustix::net::bind(&socket, &at).unwrap();
    rustix::net::listen(&socket, 128).unwrap();
    TcpListener::from(socket)
}

fn hex(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

//! For tests: a host and an Internet in network namespaces of their own, which end with the test.
//!
//! ```text
//!   internet                               host                       whatever the test attaches
//!   out0 198.51.100.1/24, 192.0.2.x/32 ══  up0 198.51.100.2/24   ══   …
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use crate::namespace;

/// Documentation addresses only: nothing leaves the machine.
pub(crate) const INTERNET: [&str; 3] = ["192.0.2.1", "192.0.2.2", "203.0.113.9"];
pub(crate) const INTERNET_V6: &str = "2001:db8:9::9";
/// Where the host is, as the Internet sees it.
pub(crate) const HOST: &str = "198.51.100.2";
pub(crate) const HOST_V6: &str = "2001:db8::2";

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) host: OwnedFd,
    pub(crate) internet: OwnedFd,
}

impl World {
    /// `None`, with a word about it, for who may not make namespaces. Where tests must run, that is
    /// a failure.
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "these tests need root");
            eprintln!("skipped: making network namespaces needs root");
            return None;
        }
        let (internet, ()) = namespace::make(|_| Ok(())).unwrap();
        let (host, ()) = namespace::make(|_| Ok(())).unwrap();
        let world = Self { host, internet };
        world.join().unwrap();
        Some(world)
    }

    pub(crate) fn on_host<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        namespace::visit(self.host.as_fd(), || Ok(work())).unwrap()
    }

    pub(crate) fn on_internet<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        namespace::visit(self.internet.as_fd(), || Ok(work())).unwrap()
    }

    /// The same with IPv6, for which the host is a router too.
    pub(crate) fn with_v6() -> Option<Self> {
        let world = Self::new()?;
        world.on_internet(|| {
            ip("address add 2001:db8::1/64 dev out0 nodad").unwrap();
            ip(&format!("address add {INTERNET_V6}/128 dev out0 nodad")).unwrap();
        });
        world.on_host(|| {
            namespace::set_sysctl("ipv6/conf/all/forwarding", "1").unwrap();
            ip("address add 2001:db8::2/64 dev up0 nodad").unwrap();
            ip("route add default via 2001:db8::1").unwrap();
        });
        Some(world)
    }

    fn join(&self) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let internet = format!("/proc/{}/fd/{}", std::process::id(), self.internet.as_raw_fd());
        self.on_host(|| {
            namespace::set_sysctl("ipv4/ping_group_range", "0 2147483647")?;
            ip("link set lo up")?;
            ip(&format!("link add up0 type veth peer name out0 netns {internet}"))?;
            ip("address add 198.51.100.2/24 dev up0")?;
            ip("link set up0 up")?;
            namespace::set_sysctl("ipv4/ip_forward", "1")
        })?;
        self.on_internet(|| {
            ip("link set lo up")?;
            ip("address add 198.51.100.1/24 dev out0")?;
            for address in INTERNET {
                ip(&format!("address add {address}/32 dev out0"))?;
            }
            ip("link set out0 up")
        })?;
        self.on_host(|| ip("route add default via 198.51.100.1"))
    }
}

/// Runs `ip` where the calling thread is.
pub(crate) fn ip(arguments: &str) -> io::Result<()> {
    run("ip", arguments).map(drop)
}

/// The output of a program. Fails with its complaints.
pub(crate) fn run(program: &str, arguments: &str) -> io::Result<String> {
    let output = Command::new(program).args(arguments.split_whitespace()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{program} {arguments}: {}", complaint.trim())))
}

/// True if an echo comes back to the calling thread's namespace. The scope is a link's number, for
/// addresses that need one.
fn pings_over(address: IpAddr, scope: u32) -> bool {
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};
    let (family, protocol, kind) = match address {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128),
    };
    let socket = rustix::net::socket(family, SocketType::DGRAM, Some(protocol)).unwrap();
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(1))).unwrap();
    let echo = [kind, 0, 0, 0, 0, 0, 0, 1, 7, 7];
    let to = match address {
        IpAddr::V4(v4) => SocketAddr::from((v4, 0)),
        IpAddr::V6(v6) => SocketAddr::V6(SocketAddrV6::new(v6, 0, 0, scope)),
    };
    let mut answer = [0; 64];
    rustix::net::sendto(&socket, &echo, SendFlags::empty(), &to).is_ok()
        && rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty()).is_ok()
}

/// Tries until there is an answer: on a busy machine the first ones may come too late.
pub(crate) fn reaches_over(address: IpAddr, scope: u32) -> bool {
    (0..60).any(|_| pings_over(address, scope))
}

pub(crate) fn reaches(address: &str) -> bool {
    reaches_over(address.parse().unwrap(), 0)
}

/// One try.
pub(crate) fn pings(address: &str) -> bool {
    pings_over(address.parse().unwrap(), 0)
}

use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

const PORT: u16 = 53;
const MOST_SERVERS: usize = 8;
/// How long a look at the file counts: the host changes its servers seldom, and questions come by
/// the hundred.
const FRESH: Duration = Duration::from_secs(1);
const MOST_FILE_BYTES: u64 = 64 << 10;

/// The servers that are asked, in the order of preference.
#[derive(Debug)]
pub(crate) struct Servers {
    /// Absent where the operator named the servers.
    file: Option<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    servers: Arc<[SocketAddr]>,
    /// The file that they are from, as it was.
    stamp: Option<Stamp>,
    looked: Option<Instant>,
}

/// Changes with a file's contents, and also when another file takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Servers {
    /// The servers that the operator has named; if there are none, the machine's own.
    pub(crate) fn new(named: &[SocketAddr]) -> Self {
        if named.is_empty() { Self::of_file(Path::new("/etc/resolv.conf")) } else { Self::fixed(named) }
    }

    fn fixed(servers: &[SocketAddr]) -> Self {
        let servers = servers.iter().copied().take(MOST_SERVERS).collect();
        let known = Known { servers, stamp: None, looked: None };
        Self { file: None, known: Mutex::new(known) }
    }

    /// The servers of a file in the form of `resolv.conf`, read again when it changes.
    pub(super) fn of_file(path: &Path) -> Self {
        let known = Known { servers: Arc::new([]), stamp: None, looked: None };
        Self { file: Some(path.to_owned()), known: Mutex::new(known) }
    }

    pub(super) fn now(&self) -> Arc<[SocketAddr]> {
        let mut known = self.known.lock();
        if let Some(path) = &self.file
            && known.looked.is_none_or(|looked| looked.elapsed() >= FRESH)
        {
            known.follow(path);
        }
        Arc::clone(&known.servers)
    }
}

impl Known {
    /// While the file cannot be read, as in the moment of its replacement, the servers stay what
    /// they were.
    fn follow(&mut self, path: &Path) {
        self.looked = Some(Instant::now());
        let stamp = match Stamp::of(path) {
            Ok(stamp) if Some(stamp) != self.stamp => stamp,
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "cannot look at the list of name servers");
                return;
            }
        };
        match read(path) {
            Ok(servers) => {
                tracing::debug!(?servers, "name servers");
                (self.servers, self.stamp) = (servers.into(), Some(stamp));
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot read the list of name servers")
            }
        }
    }
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            changed: (found.mtime(), found.mtime_nsec()),
        })
    }
}

fn read(path: &Path) -> io::Result<Vec<SocketAddr>> {
    let mut text = String::new();
    fs::File::open(path)?.take(MOST_FILE_BYTES).read_to_string(&mut text)?;
    Ok(parse(&text))
}

/// As resolv.conf(5) has it: without a server, the machine's own is meant.
fn parse(text: &str) -> Vec<SocketAddr> {
    let named = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()).flatten()
    });
    let mut servers: Vec<SocketAddr> = named.filter_map(server).take(MOST_SERVERS).collect();
    if servers.is_empty() {
        servers.push((Ipv4Addr::LOCALHOST, PORT).into());
    }
    servers
}

/// An address, perhaps with the link that it is on.
fn server(text: &str) -> Option<SocketAddr> {
    let Some((address, link)) = text.split_once('%') else {
        return text.parse::<IpAddr>().ok().map(|address| (address, PORT).into());
    };
    let address: Ipv6Addr = address.parse().ok()?;
    let scope = link.parse().ok().or_else(|| link_number(link))?;
    Some(SocketAddrV6::new(address, PORT, 0, scope).into())
}

fn link_number(link: &str) -> Option<u32> {
    if link.contains('/') || link.starts_with('.') {
        return None;
    }
    fs::read_to_string(Path::new("/sys/class/net").join(link).join("ifindex")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        parse(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_of_servers_is_read_as_the_host_reads_it() {
        let text = "# no\n; nameserver 192.0.2.9\nsearch example\noptions timeout:1\nnameserver 192.0.2.1\n \
                    nameserver\t2001:db8::1 # here\nnameserver fe80::1%lo\nnameserver fe80::1%7\n\
                    nameserver nonsense\nnameserver\nnameserver fe80::1%../../x\nnameservers 192.0.2.8\n";
        let expected = ["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%1]:53", "[fe80::1%7]:53"];
        assert_eq!(shown(text), expected);
        assert_eq!(shown(""), ["127.0.0.1:53"]);
        assert_eq!(shown(&"nameserver 192.0.2.1\n".repeat(100)).len(), MOST_SERVERS);
    }

    #[test]
    fn a_changed_file_is_followed_and_a_missing_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        let servers = Servers::of_file(&path);
        assert!(servers.now().is_empty());
        let look_again = || {
            servers.known.lock().looked = None;
            servers.now().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        fs::write(&path, "nameserver 192.0.2.1\n").unwrap();
        assert!(servers.now().is_empty(), "it was looked at just now");
        assert_eq!(look_again(), ["192.0.2.1:53"]);
        let other = folder.path().join("new");
        fs::write(&other, "nameserver 192.0.2.2\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(look_again(), ["192.0.2.2:53"]);
        fs::remove_file(&path).unwrap();
        assert_eq!(look_again(), ["192.0.2.2:53"]);
    }

    #[test]
    fn named_servers_are_the_only_ones() {
        let named = ["192.0.2.1:5353".parse().unwrap()];
        assert_eq!(&*Servers::new(&named).now(), &named);
    }
}

//! Finds the program that made a connection. Best effort: one that is gone, or hides among very
//! many, is not found.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use parking_lot::Mutex;

/// Processes of the machine that are looked at.
const MOST_PROCESSES: usize = 20_000;
/// Descriptors of one process that are looked at.
const MOST_DESCRIPTORS: usize = 4096;
/// Addresses whose networks are remembered.
const MOST_NETWORKS: usize = 8192;
/// Of a table of connections so much is read.
const MOST_TABLE: u64 = 1 << 20;

/// Finds programs, and remembers in which network each address is.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    networks: Mutex<HashMap<IpAddr, Network>>,
}

/// A network namespace, as the kernel calls it.
type Network = Vec<u8>;

impl Finder {
    /// The program, by name, that has a connection from this address. Blocks for some milliseconds.
    pub(crate) fn behind(&self, client: SocketAddr) -> Option<String> {
        let known = self.networks.lock().get(&client.ip()).cloned();
        let found = known.and_then(|known| search(client, |network| *network == known));
        let (name, network) = match found {
            Some(found) => found,
            None => {
                let own = network_of(Path::new("/proc/self"))?;
                search(client, |network| *network != own)?
            }
        };
        let mut networks = self.networks.lock();
        if networks.len() >= MOST_NETWORKS {
            networks.clear();
        }
        networks.insert(client.ip(), network);
        Some(name)
    }
}

/// Looks at the processes of some networks.
fn search(client: SocketAddr, is_meant: impl Fn(&Network) -> bool) -> Option<(String, Network)> {
    let mut sockets: HashMap<Network, Option<u64>> = HashMap::new();
    for entry in fs::read_dir("/proc").ok()?.flatten().take(MOST_PROCESSES) {
        if !entry.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let process = entry.path();
        let Some(network) = network_of(&process).filter(&is_meant) else { continue };
        let socket = *sockets.entry(network.clone()).or_insert_with(|| {
            // The table of connections takes long to be read, even where it is short.
            has_address(&process, client.ip()).then(|| socket_of(&process, client)).flatten()
        });
        if socket.is_some_and(|inode| holds(&process, inode)) {
            return name_of(&process).map(|name| (name, network));
        }
    }
    None
}

fn network_of(process: &Path) -> Option<Network> {
    let link = fs::read_link(process.join("ns/net")).ok()?;
    Some(link.as_os_str().as_bytes().to_vec())
}

/// True if an address belongs to the network that a process is in.
fn has_address(process: &Path, address: IpAddr) -> bool {
    let table = match address {
        IpAddr::V4(_) => read_some(&process.join("net/fib_trie")),
        IpAddr::V6(_) => read_some(&process.join("net/if_inet6")),
    };
    table.is_some_and(|table| match address {
        IpAddr::V4(v4) => is_local(&table, &v4.to_string()),
        IpAddr::V6(v6) => table.contains(&format!("{:032x}", v6.to_bits())),
    })
}

/// A tree of the kernel's: a line with an address, then one that says what it is.
fn is_local(tree: &str, address: &str) -> bool {
    let leaves = tree.lines().zip(tree.lines().skip(1));
    leaves
        .into_iter()
        .any(|(leaf, kind)| leaf.trim().strip_prefix("|-- ") == Some(address) && kind.ends_with("host LOCAL"))
}

/// The inode of the socket with this address in the network that a process is in.
fn socket_of(process: &Path, client: SocketAddr) -> Option<u64> {
    let (table, wanted) = match client.ip() {
        IpAddr::V4(_) => ("net/tcp", written(client)),
        IpAddr::V6(_) => ("net/tcp6", written(client)),
    };
    let found = find_socket(&read_some(&process.join(table))?, &wanted);
    match client.ip() {
        // A program may speak IPv4 through a socket of IPv6.
        IpAddr::V4(v4) if found.is_none() => {
            let mapped = SocketAddr::new(v4.to_ipv6_mapped().into(), client.port());
            find_socket(&read_some(&process.join("net/tcp6"))?, &written(mapped))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => found,
    }
}

/// A table of the kernel's: number, local address, remote address, state, …, inode in the tenth
/// column.
fn find_socket(table: &str, local: &str) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        if columns.next()? != local {
            return None;
        }
        columns.nth(7)?.parse().ok().filter(|inode| *inode != 0)
    })
}

/// An address as the kernel's tables have it: words of 32 bits in the machine's order, in
/// hexadecimal.
fn written(address: SocketAddr) -> String {
    let words = |bytes: &[u8]| {
        let words = bytes.as_chunks::<4>().0.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
        words.collect::<String>()
    };
    let host = match address.ip() {
        IpAddr::V4(v4) => words(&v4.octets()),
        IpAddr::V6(v6) => words(&v6.octets()),
    };
    format!("{host}:{:04X}", address.port())
}

fn holds(process: &Path, inode: u64) -> bool {
    let wanted = format!("socket:[{inode}]");
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    let mut links = descriptors.flatten().take(MOST_DESCRIPTORS);
    links.any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == OsStr::new(&wanted)))
}

/// The program's name, made safe to show: a process chooses its own name.
fn name_of(process: &Path) -> Option<String> {
    let name = fs::read(process.join("comm")).ok()?;
    let name: String = name.trim_ascii_end().escape_ascii().map(char::from).take(64).collect();
    (!name.is_empty()).then_some(name)
}

fn read_some(path: &Path) -> Option<String> {
    use std::io::Read as _;
    let mut text = String::new();
    fs::File::open(path).ok()?.take(MOST_TABLE).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_kernel_does() {
        if cfg!(target_endian = "little") {
            assert_eq!(written("127.0.0.1:80".parse().unwrap()), "0100007F:0050");
            assert_eq!(written("[::1]:8080".parse().unwrap()), "00000000000000000000000001000000:1F90");
        }
    }

    #[test]
    fn a_socket_is_found_in_the_kernels_own_table() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inode = socket_of(Path::new("/proc/self"), address).expect("in the table");
        assert!(holds(Path::new("/proc/self"), inode));
        assert!(name_of(Path::new("/proc/self")).is_some());
        drop(listener);
        assert_eq!(socket_of(Path::new("/proc/self"), address), None);
    }

    #[test]
    fn a_program_is_found_by_its_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // Other tests of this process have thousands of connections for a while, among which it is
        // not found.
        let found = (0..600).find_map(|_| {
            let found = search(client.local_addr().unwrap(), |_| true);
            if found.is_none() {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            found
        });
        assert_eq!(found.map(|(name, _)| name), name_of(Path::new("/proc/self")));
        let elsewhere = Finder::default();
        assert_eq!(
            elsewhere.behind(client.local_addr().unwrap()),
            None,
            "the host's own programs are no sandbox's"
        );
    }

    #[test]
    fn a_program_in_another_network_is_found() {
        use std::io::Write as _;
        use std::os::fd::AsRawFd;
        let Some(world) = crate::world::World::new() else { return };
        let listener = world.on_internet(|| std::net::TcpListener::bind("192.0.2.1:0").unwrap());
        let port = listener.local_addr().unwrap().port();
        let network = format!("--net=/proc/{}/fd/{}", std::process::id(), world.internet.as_raw_fd());
        let script = format!("exec 3<>/dev/tcp/192.0.2.1/{port}; read -u 3 line");
        let mut program =
            std::process::Command::new("nsenter").args([&network, "bash", "-c", &script]).spawn().unwrap();
        let (mut accepted, client) = listener.accept().unwrap();
        let finder = Finder::default();
        for time in ["first", "second"] {
            assert_eq!(finder.behind(client).as_deref(), Some("bash"), "the {time} time");
        }
        assert_eq!(finder.behind(SocketAddr::new(client.ip(), 1)), None, "nobody has this port");
        accepted.write_all(b"\n").unwrap();
        program.wait().unwrap();
        assert_eq!(finder.behind(client), None, "it has gone");
    }

    #[test]
    fn a_network_knows_its_own_addresses() {
        let own = Path::new("/proc/self");
        assert!(has_address(own, [127, 0, 0, 1].into()));
        assert!(!has_address(own, [192, 0, 2, 77].into()));
        let tree = "Local:\n  +-- 0.0.0.0/0 2 0 2\n     |-- 10.213.0.1\n        /32 host LOCAL\n     |-- 10.213.0.2\n        /32 link BROADCAST\n";
        assert!(is_local(tree, "10.213.0.1") && !is_local(tree, "10.213.0.2") && !is_local(tree, "10.213.0"));
    }

    #[test]
    fn a_broken_table_names_nobody() {
        for table in ["", "x", "head\n", "head\n 0: 0100007F:0050", "head\n 0: 0100007F:0050 a b c d e f g x"]
        {
            assert_eq!(find_socket(table, "0100007F:0050"), None, "{table}");
        }
    }
}

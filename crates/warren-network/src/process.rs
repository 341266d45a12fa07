//! Which program made a connection. Best effort: whoever is gone, or hides among very many, is not found.

use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Processes of the machine that are looked at.
const MOST_PROCESSES: usize = 20_000;
/// Descriptors of one process that are looked at.
const MOST_DESCRIPTORS: usize = 4096;
/// Of a table of connections so much is read.
const MOST_TABLE: u64 = 1 << 20;

/// The program, by name, that has a connection from this address. Blocks for some milliseconds.
pub(crate) fn behind(client: SocketAddr) -> Option<String> {
    let own = network_of(Path::new("/proc/self"))?;
    let mut networks: Vec<(Vec<u8>, Option<u64>)> = Vec::new();
    for entry in fs::read_dir("/proc").ok()?.flatten().take(MOST_PROCESSES) {
        let process = entry.path();
        if !entry.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let Some(network) = network_of(&process).filter(|network| *network != own) else { continue };
        let inode = match networks.iter().find(|(known, _)| *known == network) {
            Some((_, inode)) => *inode,
            None => {
                let inode = socket_of(&process, client);
                networks.push((network, inode));
                inode
            }
        };
        if inode.is_some_and(|inode| holds(&process, inode)) {
            return name_of(&process);
        }
    }
    None
}

fn network_of(process: &Path) -> Option<Vec<u8>> {
    let link = fs::read_link(process.join("ns/net")).ok()?;
    Some(link.as_os_str().as_bytes().to_vec())
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

/// A table of the kernel's: number, local address, remote address, state, …, inode in the tenth column.
fn find_socket(table: &str, local: &str) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        if columns.next()? != local {
            return None;
        }
        columns.nth(7)?.parse().ok().filter(|inode| *inode != 0)
    })
}

/// An address as the kernel's tables have it: words of 32 bits in the machine's order, in hexadecimal.
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

/// What the program is called, made fit to be shown: a process chooses its own name.
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
    fn a_broken_table_names_nobody() {
        for table in ["", "x", "head\n", "head\n 0: 0100007F:0050", "head\n 0: 0100007F:0050 a b c d e f g x"]
        {
            assert_eq!(find_socket(table, "0100007F:0050"), None, "{table}");
        }
    }
}

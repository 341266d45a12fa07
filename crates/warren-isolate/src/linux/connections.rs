//! Counting a sandbox's connections with the outside, in the kernel's own tables.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::record::Record;

/// No more of a table is read: some thousand lines. A sandbox with that many connections is busy.
const MOST_BYTES: u64 = 512 << 10;

const ESTABLISHED: &str = "01";

/// Established TCP connections with others than the sandbox itself. Zero if they cannot be read.
pub(super) fn count(record: &Record) -> u64 {
    // Without a network there are none.
    if record.spec.network.is_none() || !record.is_alive() {
        return 0;
    }
    count_of(record.pid)
}

/// As [`count`], of the process that has this number.
pub(crate) fn count_of(pid: u32) -> u64 {
    count_in(&PathBuf::from(format!("/proc/{pid}/net")))
}

fn count_in(tables: &Path) -> u64 {
    let table = |sockets: &str, name: &str, table: &str| {
        // Reading a table walks over all sockets of the machine, reading their number does not.
        let text = read(&tables.join(sockets)).unwrap_or_default();
        if in_use(&text, name) == 0 {
            return 0;
        }
        established(&read(&tables.join(table)).unwrap_or_default())
    };
    table("sockstat", "TCP:", "tcp") + table("sockstat6", "TCP6:", "tcp6")
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// From a line `TCP: inuse 4 orphan 0 …`.
fn in_use(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" inuse "));
    line.and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(0)
}

fn established(table: &str) -> u64 {
    let outside = |line: &&str| {
        let mut words = line.split_whitespace().skip(2);
        let (remote, state) = (words.next().unwrap_or_default(), words.next());
        state == Some(ESTABLISHED) && !is_loopback(remote)
    };
    u64::try_from(table.lines().skip(1).filter(outside).count()).unwrap_or(u64::MAX)
}

/// `0100007F:1F90`: each four bytes of an address are a number in the machine's order.
fn is_loopback(remote: &str) -> bool {
    const V6: &str = "00000000000000000000000001000000";
    const MAPPED: &str = "0000000000000000FFFF0000";
    let address = remote.split(':').next().unwrap_or_default();
    let v4 = address.strip_prefix(MAPPED).unwrap_or(address);
    address == V6 || (v4.len() == 8 && v4.ends_with("7F"))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::linux::sys;

    const TABLE: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1
   2: 0F02000A:C350 2202000A:01BB 01 00000000:00000000 02:00000000 00000000     0        0 3 1 0 20 4 30 10 -1
   3: 0F02000A:C351 2202000A:01BB 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0";

    const TABLE_V6: &str =
        "  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:1F90 00000000000000000000000001000000:C350 01 0
   1: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:C351 01 0
   2: 0000000000000000FFFF00000F02000A:C350 0000000000000000FFFF00002202000A:01BB 01 0
   3: B80D0120000000000000000001000000:C350 B80D0120000000000000000002000000:01BB 01 0";

    #[test]
    fn only_established_connections_with_others_count() {
        assert_eq!(established(TABLE), 1);
        assert_eq!(established(TABLE_V6), 2);
        assert_eq!(established("no table at all\n\u{fffd} x"), 0);
    }

    /// In a network of its own, where no other test opens and closes sockets.
    #[test]
    fn a_connection_with_oneself_is_none() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let alone = || {
            sys::unshare_network().unwrap();
            sys::raise_loopback().unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let _far = listener.accept().unwrap();
            let tables = Path::new("/proc/thread-self/net");
            assert_eq!(in_use(&read(&tables.join("sockstat")).unwrap(), "TCP:"), 3);
            let table = read(&tables.join("tcp")).unwrap();
            assert_eq!(table.matches(&format!(" {ESTABLISHED} ")).count(), 2, "{table}");
            assert_eq!(count_in(tables), 0);
        };
        std::thread::scope(|scope| scope.spawn(alone).join().unwrap());
    }

    #[test]
    fn no_sockets_is_no_walk() {
        assert_eq!(in_use("sockets: used 4\nTCP: inuse 0 orphan 0 tw 0 alloc 2 mem 0\n", "TCP:"), 0);
        assert_eq!(in_use("TCP6: inuse 7\n", "TCP6:"), 7);
        assert_eq!(count_in(Path::new("/nowhere")), 0);
    }
}

//! A command that has ended leaves the next one its domain's rules, with nobody in them.
//!
//! The file that a domain's process holds a lock on says what that is. It is written last, when no
//! link is left in the table, and emptied first, before anything is changed. So an unlocked file
//! without a lease is a dead domain's, whenever its process was killed.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use crate::nft::Imprint;

/// The first word changes with the meaning of the others.
const FORMAT: &str = "kept-1";
/// Longer than any lease.
const MOST_BYTES: usize = 256;

/// Rules that wait for somebody, and what they hold of the process that made them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) block: u8,
    /// The number of the next link: none is given again soon.
    pub(crate) next: u16,
    pub(crate) imprint: Imprint,
    /// Ports that rules lead to: of questions and of connections, for IPv4, then for IPv6.
    pub(crate) ports: Ports,
}

/// The ports of the proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) v4: (u16, u16),
    pub(crate) v6: Option<(u16, u16)>,
}

impl Lease {
    /// The lease in a domain's file, if it is of this boot and of the calling thread's namespace.
    pub(crate) fn read(file: &File) -> Option<Self> {
        let mut bytes = [0; MOST_BYTES];
        let length = file.read_at(&mut bytes, 0).ok().filter(|length| *length > 0)?;
        Self::parse(std::str::from_utf8(bytes.get(..length)?).ok()?, &ground().ok()?)
    }

    /// Leaves the lease in the file of a domain whose lock is held.
    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        file.write_all_at(self.text(&ground()?).as_bytes(), 0)
    }

    fn text(&self, ground: &str) -> String {
        let Imprint { given, kept, generation } = self.imprint;
        let Ports { v4, v6 } = self.ports;
        let v6 = v6.map_or_else(|| "- -".to_owned(), |(dns, egress)| format!("{dns} {egress}"));
        let (block, next) = (self.block, self.next);
        format!(
            "{FORMAT} {ground} {block} {next} {given:x} {kept:x} {generation} {} {} {v6} end\n",
            v4.0, v4.1
        )
    }

    fn parse(text: &str, ground: &str) -> Option<Self> {
        let rest = text.strip_prefix(FORMAT)?.strip_prefix(' ')?.strip_prefix(ground)?;
        let words: Vec<&str> = rest.strip_suffix(" end\n")?.split_whitespace().collect();
        let [block, next, given, kept, generation, dns, egress, dns6, egress6] = words[..] else {
            return None;
        };
        let v6 = match (dns6, egress6) {
            ("-", "-") => None,
            (dns, egress) => Some((dns.parse().ok()?, egress.parse().ok()?)),
        };
        let hash = |word: &str| u64::from_str_radix(word, 16).ok();
        Some(Self {
            block: block.parse().ok()?,
            next: next.parse().ok()?,
            imprint: Imprint { given: hash(given)?, kept: hash(kept)?, generation: generation.parse().ok()? },
            ports: Ports { v4: (dns.parse().ok()?, egress.parse().ok()?), v6 },
        })
    }
}

/// Names this boot of the machine, and the calling thread's network namespace.
fn ground() -> io::Result<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let namespace = std::fs::metadata("/proc/thread-self/ns/net")?;
    Ok(format!("{} {}-{}", boot.trim(), namespace.dev(), namespace.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(v6: Option<(u16, u16)>) -> Lease {
        let imprint = Imprint { given: u64::MAX, kept: 7, generation: 41 };
        Lease { block: 15, next: 4095, imprint, ports: Ports { v4: (1, 65535), v6 } }
    }

    #[test]
    fn a_lease_is_read_as_it_was_written_and_only_whole() {
        for lease in [lease(None), lease(Some((3, 4)))] {
            let text = lease.text("boot 4-5");
            assert_eq!(Lease::parse(&text, "boot 4-5").as_ref(), Some(&lease));
            assert_eq!(Lease::parse(&text, "boot 4-6"), None, "another namespace");
            for cut in 0..text.len() {
                assert_eq!(Lease::parse(&text[..cut], "boot 4-5"), None, "{cut}");
            }
            assert!(text.len() < MOST_BYTES - 100);
        }
    }

    #[test]
    fn an_empty_file_has_no_lease() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Lease::read(&file), None);
        lease(None).write(&file).unwrap();
        assert_eq!(Lease::read(&file), Some(lease(None)));
        file.set_len(0).unwrap();
        assert_eq!(Lease::read(&file), None);
    }
}

//! Tables of the machine's that its sandboxes are in.

use std::fs;

use warren_core::Check;

use super::{ok, warning};
use crate::namespace;

/// The default size of a table of neighbours: enough, as none of ours counts.
const USUAL_NEIGHBOURS: u64 = 1024;
/// The default size of the connection table on a machine with a gigabyte.
const USUAL_CONNECTIONS: u64 = 65_536;

/// Entries of ours are there for good, which the kernel neither counts nor throws away; but
/// whatever else fills the table cuts off the host itself.
pub(super) fn neighbours() -> Check {
    let name = "neighbours";
    let most = ["ipv4", "ipv6"]
        .iter()
        .filter_map(|family| number(&format!("{family}/neigh/default/gc_thresh3")))
        .min();
    judge_neighbours(name, most, known_neighbours())
}

fn judge_neighbours(name: &'static str, most: Option<u64>, known: u64) -> Check {
    let advice =
        "raise it: sysctl net.ipv4.neigh.default.gc_thresh3=8192 net.ipv6.neigh.default.gc_thresh3=8192";
    match most {
        Some(most) if most < USUAL_NEIGHBOURS => {
            warning(name, format!("at most {most} (gc_thresh3), fewer than usual"), advice)
        }
        Some(most) if known > most / 2 => warning(
            name,
            format!("{known} of {most} (gc_thresh3) are taken, none of them by sandboxes"),
            advice,
        ),
        Some(most) => ok(name, format!("{known} of {most}; sandboxes take none")),
        None => ok(name, "the host's limit cannot be seen from this network namespace; sandboxes take none"),
    }
}

/// The host's neighbours that are not permanent.
fn known_neighbours() -> u64 {
    const PERMANENT: &str = "0x6";
    let text = fs::read_to_string("/proc/net/arp").unwrap_or_default();
    let lasting = |line: &&str| line.split_whitespace().nth(2) != Some(PERMANENT);
    text.lines().skip(1).filter(lasting).count().try_into().unwrap_or(u64::MAX)
}

/// Each sandbox has at most `limits.connections` of them.
pub(super) fn connections() -> Check {
    judge_connections(number("netfilter/nf_conntrack_max"))
}

fn judge_connections(most: Option<u64>) -> Check {
    let name = "connections";
    match most {
        Some(most) if most >= USUAL_CONNECTIONS => ok(name, format!("the host remembers {most} at most")),
        Some(most) => warning(
            name,
            format!("the host remembers {most} at most, which few busy sandboxes can use up"),
            "raise it: sysctl net.netfilter.nf_conntrack_max=262144",
        ),
        None => ok(
            name,
            "the host remembers none yet: the kernel sets the limit when the first network is opened",
        ),
    }
}

fn number(name: &str) -> Option<u64> {
    namespace::sysctl(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use warren_core::CheckStatus::{Ok, Warning};

    use super::*;

    #[test]
    fn small_and_full_tables_are_told() {
        let neighbours = |most, known| judge_neighbours("neighbours", most, known).status;
        assert_eq!(
            [neighbours(Some(1024), 3), neighbours(Some(1024), 600), neighbours(Some(128), 0)],
            [Ok, Warning, Warning]
        );
        assert_eq!(neighbours(None, 0), Ok);
        let connections = |most| judge_connections(most).status;
        assert_eq!(
            [connections(Some(262_144)), connections(Some(4096)), connections(None)],
            [Ok, Warning, Ok]
        );
    }
}

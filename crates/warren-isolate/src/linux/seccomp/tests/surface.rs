//! Makes `docs/kernel-surface.md` from the lists themselves, so that it always agrees with them.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use warren_core::Profile;

use super::super::arguments::{
    FILE_COMMANDS, HOST_COMMANDS, IPV6_OPTIONS, PROCESS_COMMANDS, Refused, SECCOMP_MODES, SECCOMP_OPERATIONS,
    SOCKET_OPTIONS, TCP_OPTIONS, TERMINAL_COMMANDS, UDP_OPTIONS,
};
use super::super::compile::compile;
use super::super::policy::rules;
use super::{ALLOW, errno, run};

/// A call, and where in it a list's commands stand.
struct Place {
    title: &'static str,
    number: libc::c_long,
    /// The arguments, but for the command.
    arguments: [u64; 6],
    command: usize,
    refused: Option<(&'static Refused, i32, &'static str)>,
    /// Name, number, who needs it, what confines it.
    passed: &'static [(&'static str, u32, &'static str, &'static str)],
}

const PLACES: [Place; 11] = [
    Place {
        title: "`setsockopt`, `SOL_SOCKET`",
        number: libc::SYS_setsockopt,
        arguments: [3, 1, 0, 0, 0, 0],
        command: 2,
        refused: Some((&SOCKET_OPTIONS, libc::ENOPROTOOPT, "ENOPROTOOPT")),
        passed: &[
            (
                "SO_SNDBUF, SO_RCVBUF",
                7,
                "servers, databases",
                "at most `net.core.wmem_max`; counted as the sandbox's memory",
            ),
            (
                "SO_SNDBUFFORCE",
                32,
                "nobody inside",
                "wants CAP_NET_ADMIN over the namespace, which is the host's",
            ),
            (
                "SO_BINDTODEVICE",
                25,
                "`ping -I`, `curl --interface`",
                "the namespace has loopback and one link",
            ),
            ("SO_MARK", 36, "nobody inside", "wants CAP_NET_ADMIN over the namespace"),
            ("SO_PRIORITY", 12, "SSH, SIP", "up to 6 without rights; our queues do not look at it"),
            ("SO_BUSY_POLL", 46, "nobody inside", "more than the host's own setting wants CAP_NET_ADMIN"),
            ("SO_ZEROCOPY", 60, "gRPC, nginx", "pinned pages count against RLIMIT_MEMLOCK, 64 KiB"),
            ("SO_TXTIME", 61, "media servers", "our queues do not look at it"),
            ("SO_LOCK_FILTER", 44, "daemons that attach filters", "there is none to lock"),
        ],
    },
    Place {
        title: "`setsockopt`, `IPPROTO_IP`",
        number: libc::SYS_setsockopt,
        arguments: [3, 0, 0, 0, 0, 0],
        command: 2,
        refused: None,
        passed: &[
            (
                "IP_ADD_MEMBERSHIP",
                35,
                "mDNS, clusters",
                "20 groups for a socket; what is sent to a group stays on loopback",
            ),
            ("IP_MSFILTER", 41, "media players", "10 sources for a group, and the socket's option memory"),
            ("IP_OPTIONS", 4, "nobody", "40 bytes; where a packet goes next is checked after it is routed"),
            ("IPT_SO_SET_REPLACE", 64, "nobody inside", "wants CAP_NET_ADMIN over the namespace"),
        ],
    },
    Place {
        title: "`setsockopt`, `IPPROTO_TCP`",
        number: libc::SYS_setsockopt,
        arguments: [3, 6, 0, 0, 0, 0],
        command: 2,
        refused: Some((&TCP_OPTIONS, libc::ENOPROTOOPT, "ENOPROTOOPT")),
        passed: &[
            ("TCP_NODELAY", 1, "everybody", "the socket itself"),
            (
                "TCP_CONGESTION",
                13,
                "iperf, Chromium",
                "what the host allows; modules are loaded for the host's root only",
            ),
            ("TCP_MD5SIG", 14, "BGP daemons", "the socket's option memory"),
            ("TCP_REPAIR", 19, "CRIU", "wants CAP_NET_ADMIN over the namespace"),
        ],
    },
    Place {
        title: "`setsockopt`, `IPPROTO_UDP`",
        number: libc::SYS_setsockopt,
        arguments: [3, 17, 0, 0, 0, 0],
        command: 2,
        refused: Some((&UDP_OPTIONS, libc::ENOPROTOOPT, "ENOPROTOOPT")),
        passed: &[("UDP_SEGMENT", 103, "QUIC", "one send of 64 KiB")],
    },
    Place {
        title: "`setsockopt`, `IPPROTO_IPV6`",
        number: libc::SYS_setsockopt,
        arguments: [3, 41, 0, 0, 0, 0],
        command: 2,
        refused: Some((&IPV6_OPTIONS, libc::ENOPROTOOPT, "ENOPROTOOPT")),
        passed: &[
            ("IPV6_V6ONLY", 26, "everybody", "the socket itself"),
            (
                "IPV6_JOIN_GROUP",
                20,
                "mDNS, clusters",
                "the socket's option memory, which the namespace sets to 20 KiB",
            ),
        ],
    },
    Place {
        title: "`seccomp`",
        number: libc::SYS_seccomp,
        arguments: [0; 6],
        command: 0,
        refused: Some((&SECCOMP_OPERATIONS, libc::EINVAL, "EINVAL")),
        passed: &[
            (
                "SECCOMP_SET_MODE_STRICT",
                0,
                "nobody of late",
                "the kernel refuses it beside a filter, and everybody has ours",
            ),
            ("SECCOMP_GET_ACTION_AVAIL", 2, "libseccomp", "only asks"),
        ],
    },
    Place {
        title: "`prctl`",
        number: libc::SYS_prctl,
        arguments: [0; 6],
        command: 0,
        refused: Some((&PROCESS_COMMANDS, libc::EINVAL, "EINVAL")),
        passed: &[
            ("PR_SET_NAME", 15, "everybody", "the thread itself"),
            ("PR_SET_PDEATHSIG", 1, "supervisors", "the process itself"),
            ("PR_SET_CHILD_SUBREAPER", 36, "supervisors, container shims", "the sandbox's own processes"),
            ("PR_SET_DUMPABLE", 4, "`ssh-agent`, `gpg`", "the process itself; nobody dumps core"),
            ("PR_SET_PTRACER", 0x5961_6D61, "crash reporters", "the sandbox's own processes"),
            ("PR_SET_MM", 35, "CRIU", "the process itself; most of it wants CAP_SYS_RESOURCE"),
            ("PR_SET_TIMERSLACK", 29, "browsers", "the thread itself"),
            ("PR_SET_VMA", 0x5356_4D41, "allocators", "names of the process's own memory"),
            ("PR_SET_SYSCALL_USER_DISPATCH", 59, "Wine", "the thread itself, after our filter"),
            ("PR_SET_MDWE", 65, "hardened daemons", "the process itself"),
            ("PR_CAP_AMBIENT", 47, "daemons", "never more than the bounding set"),
            ("PR_SET_IO_FLUSHER", 57, "nobody inside", "wants CAP_SYS_RESOURCE of the host"),
        ],
    },
    Place {
        title: "`prctl`, `PR_SET_SECCOMP`",
        number: libc::SYS_prctl,
        arguments: [22, 0, 0, 0, 0, 0],
        command: 1,
        refused: Some((&SECCOMP_MODES, libc::EINVAL, "EINVAL")),
        passed: &[("SECCOMP_MODE_STRICT", 1, "as `SECCOMP_SET_MODE_STRICT`", "as there")],
    },
    Place {
        title: "`ioctl`, terminals",
        number: libc::SYS_ioctl,
        arguments: [0; 6],
        command: 1,
        refused: Some((&TERMINAL_COMMANDS, libc::EPERM, "EPERM")),
        passed: &[
            (
                "TCGETS, TCSETS, TIOCGWINSZ, TIOCSPGRP …",
                0x5401,
                "every shell",
                "terminals of the sandbox's own, 256 at most",
            ),
            ("TIOCCONS", 0x541D, "nobody inside", "wants CAP_SYS_ADMIN of the host"),
            ("KDSKBENT …", 0x4B47, "nobody inside", "there is no console"),
        ],
    },
    Place {
        title: "`ioctl`, files and sockets",
        number: libc::SYS_ioctl,
        arguments: [0; 6],
        command: 1,
        refused: Some((&HOST_COMMANDS, libc::ENOTTY, "ENOTTY")),
        passed: &[
            ("FS_IOC_GETFLAGS", 0x8008_6601, "`lsattr`", "only asks"),
            (
                "FICLONE, FICLONERANGE",
                0x4004_9409,
                "`cp --reflink`",
                "counted by the disk limit like any write",
            ),
            ("FIDEDUPERANGE", 0xC018_9436, "`duperemove`", "files that the caller may write"),
            ("FS_IOC_FIEMAP", 0xC020_660B, "`cp --sparse`, `filefrag`", "only asks"),
            (
                "FIFREEZE, FITHAW, FITRIM",
                0xC004_5877,
                "nobody inside",
                "want CAP_SYS_ADMIN over the file system",
            ),
            ("FS_IOC_ENABLE_VERITY", 0x4080_6685, "nobody inside", "overlays do not pass it on"),
            ("SIOCGIFCONF, SIOCGIFADDR …", 0x8912, "runtimes that list interfaces", "the sandbox's own link"),
            (
                "SIOCSIFADDR, SIOCSIFFLAGS …",
                0x8916,
                "nobody inside",
                "want CAP_NET_ADMIN over the namespace; no module is loaded by name without the host's",
            ),
            ("LOOP_*, SG_IO …", 0x4C00, "nobody inside", "there is no such device"),
        ],
    },
    Place {
        title: "`fcntl`",
        number: libc::SYS_fcntl,
        arguments: [3, 0, 0, 0, 0, 0],
        command: 1,
        refused: Some((&FILE_COMMANDS, libc::EINVAL, "EINVAL")),
        passed: &[
            ("F_DUPFD, F_SETFD, F_SETFL", 0, "everybody", "the process's own table"),
            (
                "F_SETLK, F_OFD_SETLK",
                6,
                "SQLite, dpkg, every package manager",
                "not counted by the kernel: see [shared-tables.md](shared-tables.md)",
            ),
            (
                "F_SETPIPE_SZ",
                1031,
                "pipes of media tools",
                "64 MiB for a user id, which no other sandbox has; counted as memory",
            ),
            ("F_SETOWN, F_SETSIG", 8, "event loops of old", "signals that the caller could send itself"),
            ("F_ADD_SEALS", 1033, "`memfd` of browsers and Wayland", "the file itself"),
            ("F_SET_RW_HINT", 1036, "databases", "advice to the disk"),
        ],
    },
];

const HEAD: &str = "\
# What of the kernel a sandbox reaches

Four system calls have thousands of meanings. This page lists what of them is refused and why, and of what passes all that
could matter: who needs it, and what keeps it inside the sandbox. What is not listed passes too: programs try new commands all the
time and go on when the kernel does not know them. Each refusal is the answer of a kernel that was built without the part.

The page is made from the lists in `crates/warren-isolate/src/linux/seccomp`; a test compares them. For all other calls see
`policy.rs` there. What a whole machine shares, and how each sandbox is held to a part of it, is in
[shared-tables.md](shared-tables.md).
";

fn document() -> String {
    let mut text = HEAD.to_owned();
    for place in &PLACES {
        write!(text, "\n## {}\n", place.title).unwrap();
        if let Some((refused, _, answer)) = &place.refused {
            write!(text, "\n| refused, with `{answer}` | number | why |\n|---|---|---|\n").unwrap();
            for (name, number, why) in refused.rows {
                writeln!(text, "| `{name}` | {number:#x} | {why} |").unwrap();
            }
        }
        text.push_str("\n| passes | who needs it | what confines it |\n|---|---|---|\n");
        for (name, _, who, what) in place.passed {
            writeln!(text, "| {name} | {who} | {what} |").unwrap();
        }
    }
    text
}

#[test]
fn the_document_says_what_is_loaded() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/kernel-surface.md");
    if env::var_os("WARREN_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, document()).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap() == document(), "run with WARREN_BLESS=1 and read the diff");
}

#[test]
fn what_is_said_to_be_refused_is_and_what_is_said_to_pass_passes() {
    for profile in [Profile::Standard, Profile::Strict] {
        let program = compile(&rules(profile));
        for place in &PLACES {
            let answer = |command: u32| {
                let mut arguments = place.arguments;
                arguments[place.command] = command.into();
                run(&program, u32::try_from(place.number).unwrap(), arguments)
            };
            if let Some((refused, code, _)) = &place.refused {
                for (name, number, _) in refused.rows {
                    assert_eq!(answer(*number), errno(*code), "{}: {name}", place.title);
                }
            }
            for (name, number, ..) in place.passed {
                assert_eq!(answer(*number), ALLOW, "{}: {name}", place.title);
            }
        }
    }
}

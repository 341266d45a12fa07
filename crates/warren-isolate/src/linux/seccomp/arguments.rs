//! The refused commands of `setsockopt`, `prctl`, `ioctl` and `fcntl`, which have thousands of
//! meanings.
//!
//! All four have lists of refused commands, not of allowed ones: programs try new commands all the
//! time, and fail on unexpected errors. Other commands are confined by the kernel, by the sandbox's
//! namespaces and by its missing rights; `docs/kernel-surface.md` says who needs each and what
//! confines it.
//!
//! Each refusal answers as a kernel built without that part, so that callers go on.

use super::policy::{Rule, Word};

/// Commands of one call that are refused alike.
#[derive(Debug)]
pub(super) struct Refused {
    values: &'static [u32],
    /// For the document: a name, its number and the reason.
    #[cfg(test)]
    pub(super) rows: &'static [(&'static str, u32, &'static str)],
}

macro_rules! refused {
    ($($name:ident = $value:literal: $why:literal;)*) => {
        Refused {
            values: &[$($value),*],
            #[cfg(test)]
            rows: &[$((stringify!($name), $value, $why)),*],
        }
    };
}

/// A rule by one argument, which is an `int` or a command.
macro_rules! when {
    ($argument:literal in $values:expr, $then:expr, else $otherwise:expr) => {
        Rule::If {
            word: Word::Low($argument),
            mask: u32::MAX,
            values: $values,
            then: $then,
            otherwise: $otherwise,
        }
    };
}

const ALLOW: &Rule = &Rule::Allow;
const DENIED: &Rule = &Rule::Refuse(libc::EPERM);
const NO_OPTION: &Rule = &Rule::Refuse(libc::ENOPROTOOPT);
const NO_COMMAND: &Rule = &Rule::Refuse(libc::EINVAL);
const NO_IOCTL: &Rule = &Rule::Refuse(libc::ENOTTY);

/// Of every socket (`SOL_SOCKET`).
pub(super) const SOCKET_OPTIONS: Refused = refused! {
    SO_DONTROUTE = 5: "makes every address a neighbour, and the machine has one table of those; a rule in the namespace drops such packets too";
    SO_ATTACH_FILTER = 26: "compiled into memory that the whole machine shares (`net.core.bpf_jit_limit`)";
    SO_ATTACH_BPF = 50: "as `SO_ATTACH_FILTER`";
    SO_ATTACH_REUSEPORT_CBPF = 51: "as `SO_ATTACH_FILTER`";
    SO_ATTACH_REUSEPORT_EBPF = 52: "as `SO_ATTACH_FILTER`";
};

/// Of TCP.
pub(super) const TCP_OPTIONS: Refused = refused! {
    TCP_ULP = 31: "TLS in the kernel: large, often broken, and every library does without";
};

/// Of UDP.
pub(super) const UDP_OPTIONS: Refused = refused! {
    UDP_ENCAP = 100: "leads packets into IPsec and tunnels, which nobody inside could set up";
};

/// Of IPv6.
pub(super) const IPV6_OPTIONS: Refused = refused! {
    IPV6_FLOWLABEL_MGR = 32: "flow labels are leased from one table of the machine";
};

/// By the level, then by the option.
pub(super) const SET_SOCKET_OPTION: Rule = when!(1 in &[1], &OF_SOCKETS, else &OTHER_LEVELS);
const OTHER_LEVELS: Rule = when!(1 in &[6], &OF_TCP, else &NOT_TCP);
const NOT_TCP: Rule = when!(1 in &[17], &OF_UDP, else &NOT_UDP);
const NOT_UDP: Rule = when!(1 in &[41], &OF_IPV6, else ALLOW);
const OF_SOCKETS: Rule = when!(2 in SOCKET_OPTIONS.values, NO_OPTION, else ALLOW);
const OF_TCP: Rule = when!(2 in TCP_OPTIONS.values, NO_OPTION, else ALLOW);
const OF_UDP: Rule = when!(2 in UDP_OPTIONS.values, NO_OPTION, else ALLOW);
const OF_IPV6: Rule = when!(2 in IPV6_OPTIONS.values, NO_OPTION, else ALLOW);

/// A filter of a program's own, by either call. Each process could hold thousands of instructions,
/// compiled into memory that the whole machine shares and no control group counts.
pub(super) const SECCOMP: Rule = when!(0 in SECCOMP_OPERATIONS.values, NO_COMMAND, else ALLOW);
pub(super) const SECCOMP_OPERATIONS: Refused = refused! {
    SECCOMP_SET_MODE_FILTER = 1: "compiled into memory that the whole machine shares (`net.core.bpf_jit_limit`); Landlock works";
};

pub(super) const PROCESS_CONTROL: Rule = when!(0 in PROCESS_COMMANDS.values, NO_COMMAND, else &SET_SECCOMP);
const SET_SECCOMP: Rule = when!(0 in &[22], &SECCOMP_MODE, else ALLOW);
const SECCOMP_MODE: Rule = when!(1 in SECCOMP_MODES.values, NO_COMMAND, else ALLOW);

pub(super) const PROCESS_COMMANDS: Refused = refused! {
    PR_SCHED_CORE = 62: "keeps others off the second half of a processor";
    PR_SET_MEMORY_MERGE = 67: "shares equal pages with strangers, who can tell by the time a write takes";
};

/// The second argument of `PR_SET_SECCOMP`.
pub(super) const SECCOMP_MODES: Refused = refused! {
    SECCOMP_MODE_FILTER = 2: "as `SECCOMP_SET_MODE_FILTER`";
};

/// First the commands that type into a terminal or choose its discipline, then those of file
/// systems and sockets that concern the host.
pub(super) const IOCTL: Rule = when!(1 in TERMINAL_COMMANDS.values, DENIED, else &HOST_COMMAND);
const HOST_COMMAND: Rule = when!(1 in HOST_COMMANDS.values, NO_IOCTL, else ALLOW);

pub(super) const TERMINAL_COMMANDS: Refused = refused! {
    TIOCSTI = 0x5412: "types into a terminal that others read";
    TIOCLINUX = 0x541C: "pastes into a console";
    TIOCSETD = 0x5423: "line disciplines are modules of the host";
};

pub(super) const HOST_COMMANDS: Refused = refused! {
    SIOCGIFBR = 0x8940: "loads the module `bridge`, whoever asks";
    SIOCSIFBR = 0x8941: "as `SIOCGIFBR`";
    SIOCBRADDBR = 0x89A0: "as `SIOCGIFBR`";
    SIOCBRDELBR = 0x89A1: "as `SIOCGIFBR`";
    SIOCGIFVLAN = 0x8982: "loads the module `8021q`, whoever asks";
    SIOCSIFVLAN = 0x8983: "as `SIOCGIFVLAN`";
    FS_IOC_SETFLAGS = 0x4008_6602: "flags that keep a file from being removed or counted; the kernel wants rights for those too";
    FS_IOC_FSSETXATTR = 0x401C_5820: "the project that a disk limit counts by; the kernel wants the host's user namespace for it too";
    FS_IOC_ADD_ENCRYPTION_KEY = 0xC050_6617: "keys that the whole file system has, where a directory of the host is mounted";
};

pub(super) const FILE_CONTROL: Rule = when!(1 in FILE_COMMANDS.values, NO_COMMAND, else ALLOW);

pub(super) const FILE_COMMANDS: Refused = refused! {
    F_SETLEASE = 1024: "makes whoever opens the file wait for up to 45 s, on the host too where a directory of it is mounted";
    F_NOTIFY = 1026: "signals for directories, which `inotify` has long replaced";
};

//! The rule for each system call, as data. The base is Docker's default profile, without its
//! exceptions for privileged containers.
//!
//! Every call of x86_64 that exists is in exactly one table, so that a refusal is a decision and
//! not an oversight.

use libc::c_long;
use warren_core::Profile;

use super::arguments;

/// A part of what the kernel shows a filter, `struct seccomp_data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Number,
    Architecture,
    /// The lower half of an argument: all there is of an `int` or a flags word. The kernel ignores
    /// the upper half of those, so a rule must too.
    Low(u32),
    /// The upper half, which a pointer also has.
    High(u32),
}

impl Word {
    pub(super) const fn offset(self) -> u32 {
        match self {
            Self::Number => 0,
            Self::Architecture => 4,
            Self::Low(argument) => 16 + 8 * argument,
            Self::High(argument) => 20 + 8 * argument,
        }
    }
}

/// The rule for a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Allow,
    /// Is not made, and answers this `errno`; 0 looks like success.
    Refuse(i32),
    /// Decides by whether `word & mask` is one of `values`.
    If {
        word: Word,
        mask: u32,
        values: &'static [u32],
        then: &'static Rule,
        otherwise: &'static Rule,
    },
}

/// The rule of every number no table names: newer than this list, or of the x32 interface (bit 30).
/// Callers take it for an older kernel and fall back.
pub(super) const UNKNOWN: &Rule = &Rule::Refuse(libc::ENOSYS);

const DENIED: &Rule = &Rule::Refuse(libc::EPERM);

/// The rule of each call, by number. Numbers past the end are [`UNKNOWN`].
pub(super) fn rules(profile: Profile) -> Vec<&'static Rule> {
    let by_profile = match profile {
        Profile::Standard => &Rule::Allow,
        Profile::Strict => DENIED,
    };
    let plain = ALLOWED
        .iter()
        .map(|group| (*group, &Rule::Allow))
        .chain(REFUSED.iter().map(|group| (*group, DENIED)))
        .chain([(STANDARD_ONLY, by_profile), (ABSENT, UNKNOWN)])
        .flat_map(|(group, rule)| group.iter().map(move |call| (call, rule)));
    let mut rules = Vec::new();
    for (call, rule) in plain.chain(CHECKED.iter().map(|(call, rule)| (call, rule))) {
        let index = usize::try_from(call.number).expect("the tables hold no negative number");
        if rules.len() <= index {
            rules.resize(index + 1, UNKNOWN);
        }
        rules[index] = rule;
    }
    rules
}

/// All calls of all tables.
pub(super) fn calls() -> impl Iterator<Item = &'static Call> {
    let plain = ALLOWED.iter().chain(REFUSED).copied().chain([STANDARD_ONLY, ABSENT]).flatten();
    plain.chain(CHECKED.iter().map(|(call, _)| call))
}

/// A system call of x86_64.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) number: c_long,
    /// As libc's constant has it.
    pub(super) name: &'static str,
}

/// `SYS_name` is libc's constant; `SYS_name=number` is for a call that libc does not name.
macro_rules! calls {
    (@number $name:ident) => { libc::$name };
    (@number $name:ident $number:literal) => { $number };
    (@call $name:ident $($number:literal)?) => {
        Call {
            number: calls!(@number $name $($number)?),
            name: stringify!($name),
        }
    };
    ($($name:ident $(= $number:literal)?)*) => { &[$(calls!(@call $name $($number)?)),*] };
}

/// Files, directories and what is in them. `name_to_handle_at` only names a file.
const FILES: &[Call] = calls![
    SYS_read SYS_write SYS_open SYS_close SYS_stat SYS_fstat SYS_lstat SYS_lseek SYS_pread64 SYS_pwrite64
    SYS_readv SYS_writev SYS_access SYS_pipe SYS_dup SYS_dup2 SYS_sendfile SYS_flock SYS_fsync
    SYS_fdatasync SYS_truncate SYS_ftruncate SYS_getdents SYS_getcwd SYS_chdir SYS_fchdir SYS_rename
    SYS_mkdir SYS_rmdir SYS_creat SYS_link SYS_unlink SYS_symlink SYS_readlink SYS_chmod SYS_fchmod SYS_chown
    SYS_fchown SYS_lchown SYS_umask SYS_utime SYS_statfs SYS_fstatfs SYS_sync SYS_readahead SYS_getdents64
    SYS_fadvise64 SYS_utimes SYS_openat SYS_mkdirat SYS_fchownat SYS_futimesat SYS_newfstatat SYS_unlinkat
    SYS_renameat SYS_linkat SYS_symlinkat SYS_readlinkat SYS_fchmodat SYS_faccessat SYS_sync_file_range
    SYS_utimensat SYS_fallocate SYS_dup3 SYS_pipe2 SYS_preadv SYS_pwritev SYS_name_to_handle_at SYS_syncfs
    SYS_renameat2 SYS_memfd_create SYS_copy_file_range SYS_preadv2 SYS_pwritev2 SYS_statx SYS_close_range
    SYS_openat2 SYS_faccessat2 SYS_memfd_secret SYS_cachestat=451 SYS_fchmodat2
];

/// Extended attributes.
const ATTRIBUTES: &[Call] = calls![
    SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_listxattr
    SYS_llistxattr SYS_flistxattr SYS_removexattr SYS_lremovexattr SYS_fremovexattr SYS_setxattrat=463
    SYS_getxattrat=464 SYS_listxattrat=465 SYS_removexattrat=466
];

/// Waiting for descriptors, and asynchronous I/O of the older kind. The two `_old` calls never
/// existed: the kernel says so itself, and listing them keeps a run of numbers whole.
const WAITING: &[Call] = calls![
    SYS_poll SYS_select SYS_io_destroy SYS_io_getevents SYS_io_submit SYS_io_cancel
    SYS_epoll_create SYS_epoll_ctl_old SYS_epoll_wait_old SYS_epoll_wait SYS_epoll_ctl SYS_inotify_init
    SYS_inotify_add_watch SYS_inotify_rm_watch SYS_pselect6 SYS_ppoll SYS_epoll_pwait SYS_signalfd
    SYS_eventfd SYS_signalfd4 SYS_eventfd2 SYS_epoll_create1 SYS_inotify_init1 SYS_io_pgetevents=333
    SYS_epoll_pwait2
];

/// Own memory.
const MEMORY: &[Call] = calls![
    SYS_mmap SYS_mprotect SYS_munmap SYS_brk SYS_mremap SYS_msync SYS_mincore SYS_madvise SYS_mlock
    SYS_munlock SYS_mlockall SYS_munlockall SYS_remap_file_pages SYS_get_mempolicy SYS_membarrier SYS_mlock2
    SYS_pkey_mprotect SYS_pkey_alloc SYS_pkey_free SYS_process_mrelease SYS_map_shadow_stack=453 SYS_mseal
];

/// Processes, threads and locks. A user may give up rights of its own (`landlock_*`).
const PROCESSES: &[Call] = calls![
    SYS_getpid SYS_fork SYS_vfork SYS_execve SYS_exit SYS_wait4 SYS_setpgid SYS_getppid SYS_getpgrp
    SYS_setsid SYS_getpgid SYS_getsid SYS_arch_prctl SYS_gettid SYS_futex SYS_set_thread_area
    SYS_get_thread_area SYS_set_tid_address SYS_restart_syscall SYS_exit_group SYS_waitid SYS_set_robust_list
    SYS_get_robust_list SYS_execveat SYS_rseq SYS_pidfd_send_signal SYS_pidfd_open
    SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self SYS_futex_waitv
    SYS_futex_wake=454 SYS_futex_wait=455 SYS_futex_requeue=456
];

/// Signals.
const SIGNALS: &[Call] = calls![
    SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_pause SYS_kill SYS_rt_sigpending
    SYS_rt_sigtimedwait SYS_rt_sigqueueinfo SYS_rt_sigsuspend SYS_sigaltstack SYS_tkill SYS_tgkill
    SYS_rt_tgsigqueueinfo
];

/// Priorities, limits and statistics.
const SCHEDULING: &[Call] = calls![
    SYS_sched_yield SYS_uname SYS_getrlimit SYS_getrusage SYS_sysinfo SYS_times SYS_getpriority
    SYS_setpriority SYS_sched_setparam SYS_sched_getparam SYS_sched_setscheduler SYS_sched_getscheduler
    SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_rr_get_interval SYS_sched_setaffinity
    SYS_sched_getaffinity SYS_ioprio_set SYS_ioprio_get SYS_getcpu SYS_sched_setattr SYS_sched_getattr
    SYS_getrandom
];

/// Ids and capabilities: the kernel checks them against the sandbox's own user namespace.
const IDENTITY: &[Call] = calls![
    SYS_getuid SYS_getgid SYS_setuid SYS_setgid SYS_geteuid SYS_getegid SYS_setreuid SYS_setregid
    SYS_getgroups SYS_setgroups SYS_setresuid SYS_getresuid SYS_setresgid SYS_getresgid SYS_setfsuid
    SYS_setfsgid SYS_capget SYS_capset
];

/// Clocks and timers. Setting a clock takes a capability no sandbox has; `adjtimex` also reads.
const TIME: &[Call] = calls![
    SYS_nanosleep SYS_getitimer SYS_alarm SYS_setitimer SYS_gettimeofday SYS_adjtimex SYS_time
    SYS_timer_create SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun SYS_timer_delete
    SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_timerfd_create SYS_timerfd_settime
    SYS_timerfd_gettime SYS_clock_adjtime
];

/// Sockets that exist; `socket`, `socketpair` and `setsockopt` have rules.
const SOCKETS: &[Call] = calls![
    SYS_connect SYS_accept SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_shutdown SYS_bind SYS_listen
    SYS_getsockname SYS_getpeername SYS_getsockopt SYS_accept4 SYS_recvmmsg SYS_sendmmsg
];

/// System V and POSIX messages, within the sandbox's own IPC namespace.
const IPC: &[Call] = calls![
    SYS_shmget SYS_shmat SYS_shmctl SYS_semget SYS_semop SYS_semctl SYS_shmdt SYS_msgget SYS_msgsnd
    SYS_msgrcv SYS_msgctl SYS_semtimedop SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive
    SYS_mq_notify SYS_mq_getsetattr
];

/// Entered by the kernel's own trampolines. If they were refused, a host that traces would crash
/// the sandbox's programs.
const PROBES: &[Call] = calls![SYS_uretprobe=335 SYS_uprobe=336];

/// Allowed in the standard profile only. Debuggers need `ptrace` and its like, which the process
/// namespace bounds; many tools use `splice`, although bugs of the page cache have used it too.
pub(super) const STANDARD_ONLY: &[Call] = calls![
    SYS_ptrace SYS_modify_ldt SYS_splice SYS_tee SYS_vmsplice SYS_process_vm_readv SYS_process_vm_writev
];

/// Mounts, roots and namespaces: the walls of the sandbox.
const MOUNTS: &[Call] = calls![
    SYS_pivot_root SYS_chroot SYS_mount SYS_umount2 SYS_sethostname SYS_setdomainname SYS_unshare SYS_setns
    SYS_open_tree SYS_move_mount SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_mount_setattr
    SYS_open_tree_attr=467
];

/// The machine: modules, boot, devices, clocks, accounting, quotas, security modules.
const KERNEL: &[Call] = calls![
    SYS_syslog SYS_vhangup SYS_acct SYS_settimeofday SYS_swapon SYS_swapoff SYS_reboot SYS_iopl SYS_ioperm
    SYS_create_module=174 SYS_init_module SYS_delete_module SYS_get_kernel_syms=177 SYS_query_module=178
    SYS_quotactl SYS_lookup_dcookie SYS_clock_settime SYS_kexec_load SYS_finit_module SYS_kexec_file_load
    SYS_quotactl_fd SYS_lsm_get_self_attr=459 SYS_lsm_set_self_attr=460 SYS_lsm_list_modules=461
];

/// Large or often broken parts of the kernel that ordinary programs do without.
const SURFACE: &[Call] = calls![
    SYS_add_key SYS_request_key SYS_keyctl SYS_perf_event_open SYS_fanotify_init SYS_fanotify_mark SYS_bpf
    SYS_userfaultfd SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register
];

/// Ways into other processes, or to files by handle.
const OTHERS: &[Call] = calls![SYS_open_by_handle_at SYS_kcmp SYS_pidfd_getfd SYS_process_madvise];

/// Placement on memory nodes, which would tell about and disturb the neighbours. Allocators carry
/// on without.
const PLACEMENT: &[Call] = calls![
    SYS_mbind SYS_set_mempolicy SYS_migrate_pages SYS_move_pages SYS_set_mempolicy_home_node
];

/// Gone, or never there.
const OBSOLETE: &[Call] = calls![
    SYS_uselib SYS_ustat SYS_sysfs SYS__sysctl SYS_nfsservctl SYS_getpmsg SYS_putpmsg SYS_afs_syscall
    SYS_tuxcall SYS_security SYS_vserver
];

/// Answered as if they did not exist, so that callers use the older way: `clone3` hides its flags
/// behind a pointer that no filter can read, and libc falls back to `clone`; `io_setup` uses up a
/// limit of the whole machine; the others tell about mounts or have an `ioctl` twin.
pub(super) const ABSENT: &[Call] = calls![
    SYS_clone3 SYS_io_setup SYS_statmount=457 SYS_listmount=458 SYS_file_getattr=468 SYS_file_setattr=469
];

/// The tables of calls that are always allowed.
pub(super) const ALLOWED: &[&[Call]] = &[
    FILES, ATTRIBUTES, WAITING, MEMORY, PROCESSES, SIGNALS, SCHEDULING, IDENTITY, TIME, SOCKETS, IPC, PROBES,
];

/// The tables of calls that are always refused.
pub(super) const REFUSED: &[&[Call]] = &[MOUNTS, KERNEL, SURFACE, OTHERS, PLACEMENT, OBSOLETE];

/// The calls whose arguments decide.
pub(super) const CHECKED: &[(Call, Rule)] = &[
    (calls!(@call SYS_ioctl), arguments::IOCTL),
    (calls!(@call SYS_setsockopt), arguments::SET_SOCKET_OPTION),
    (calls!(@call SYS_fcntl), arguments::FILE_CONTROL),
    (calls!(@call SYS_prctl), arguments::PROCESS_CONTROL),
    (calls!(@call SYS_seccomp), arguments::SECCOMP),
    (calls!(@call SYS_socket), SOCKET),
    (calls!(@call SYS_socketpair), SOCKET_PAIR),
    (calls!(@call SYS_clone), CLONE),
    (calls!(@call SYS_mknod), make_node(1)),
    (calls!(@call SYS_mknodat), make_node(2)),
    (calls!(@call SYS_personality), PERSONALITY),
    (calls!(@call SYS_setrlimit), SET_LIMIT),
    (calls!(@call SYS_prlimit64), LIMIT),
];

/// Families that network namespaces do not confine, or that bring in modules of the host, do not
/// exist here.
const SOCKET: Rule = Rule::If {
    word: Word::Low(0),
    mask: u32::MAX,
    values: &[libc::AF_UNIX as u32],
    then: &Rule::Allow,
    otherwise: &Rule::If {
        word: Word::Low(0),
        mask: u32::MAX,
        values: &[libc::AF_INET as u32, libc::AF_INET6 as u32],
        then: &INTERNET_SOCKET,
        otherwise: &Rule::If {
            word: Word::Low(0),
            mask: u32::MAX,
            values: &[libc::AF_NETLINK as u32],
            then: &NETLINK_SOCKET,
            otherwise: &Rule::Refuse(libc::EAFNOSUPPORT),
        },
    },
};

/// Streams and datagrams: no raw socket, nor `SOCK_PACKET`, which the kernel turns into another
/// family.
const INTERNET_SOCKET: Rule = Rule::If {
    word: Word::Low(1),
    // `SOCK_TYPE_MASK`: the rest are flags.
    mask: 0xF,
    values: &[libc::SOCK_STREAM as u32, libc::SOCK_DGRAM as u32],
    then: &INTERNET_PROTOCOL,
    otherwise: DENIED,
};

/// The default, TCP, UDP and ping. Any other may load a module into the host (SCTP, DCCP, L2TP), or
/// is a refused family by another name (`IPPROTO_SMC`).
const INTERNET_PROTOCOL: Rule = Rule::If {
    word: Word::Low(2),
    mask: u32::MAX,
    values: &[
        libc::IPPROTO_IP as u32,
        libc::IPPROTO_TCP as u32,
        libc::IPPROTO_UDP as u32,
        libc::IPPROTO_ICMP as u32,
        libc::IPPROTO_ICMPV6 as u32,
    ],
    then: &Rule::Allow,
    otherwise: &Rule::Refuse(libc::EPROTONOSUPPORT),
};

/// Addresses and routes, which resolvers and `ip` read. The error is what a kernel without the
/// protocol answers: programs that would report to the audit system, such as `useradd`, go on.
const NETLINK_SOCKET: Rule = Rule::If {
    word: Word::Low(2),
    mask: u32::MAX,
    values: &[libc::NETLINK_ROUTE as u32],
    then: &Rule::Allow,
    otherwise: &Rule::Refuse(libc::EPROTONOSUPPORT),
};

const SOCKET_PAIR: Rule = Rule::If {
    word: Word::Low(0),
    mask: u32::MAX,
    values: &[libc::AF_UNIX as u32],
    then: &Rule::Allow,
    otherwise: &Rule::Refuse(libc::EAFNOSUPPORT),
};

/// No new namespace of any kind (`CLONE_NEW*`). `CLONE_NEWTIME` shares its bit with the exit signal
/// and means a namespace in `clone3` and `unshare` only.
const CLONE: Rule =
    Rule::If { word: Word::Low(0), mask: 0x7E02_0000, values: &[0], then: &Rule::Allow, otherwise: DENIED };

/// No devices. The kernel asks no capability for the character device 0:0, which hides a file of
/// the layers below. Of the types only devices (and links, which cannot be made so) have this bit.
const fn make_node(mode: u32) -> Rule {
    Rule::If {
        word: Word::Low(mode),
        mask: libc::S_IFCHR,
        values: &[0],
        then: &Rule::Allow,
        otherwise: DENIED,
    }
}

/// The values Docker allows: plain, a 32-bit machine to `uname`, release 2.6 to `uname`, both, and
/// asking. Others undo protections such as random addresses.
const PERSONALITY: Rule = Rule::If {
    word: Word::Low(0),
    mask: u32::MAX,
    values: &[0, 0x0008, 0x2_0000, 0x2_0008, u32::MAX],
    then: &Rule::Allow,
    otherwise: DENIED,
};

/// `RLIMIT_CORE`, whose type differs between C libraries.
const CORE: u32 = 4;

/// The limit on core files stays at 1, the one value that keeps a host's piped core handler from
/// running. No filter can see the new limit, so every change is ignored and reported as done.
/// Careful programs ask for no core file, which already holds, and some of them (`gpg`,
/// `ssh-agent`) end on an error.
const CORE_LIMIT: &Rule = &Rule::Refuse(0);

const SET_LIMIT: Rule = Rule::If {
    word: Word::Low(0),
    mask: u32::MAX,
    values: &[CORE],
    then: CORE_LIMIT,
    otherwise: &Rule::Allow,
};

/// As [`SET_LIMIT`], unless the call only asks: the pointer to the new limit is null, in both
/// halves.
const LIMIT: Rule = Rule::If {
    word: Word::Low(1),
    mask: u32::MAX,
    values: &[CORE],
    then: &Rule::If {
        word: Word::Low(2),
        mask: u32::MAX,
        values: &[0],
        then: &Rule::If {
            word: Word::High(2),
            mask: u32::MAX,
            values: &[0],
            then: &Rule::Allow,
            otherwise: CORE_LIMIT,
        },
        otherwise: CORE_LIMIT,
    },
    otherwise: &Rule::Allow,
};

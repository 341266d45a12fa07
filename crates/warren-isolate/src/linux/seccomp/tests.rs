//! Tests of the program against the tables, and of the rules against a plain restatement of their
//! purpose.

mod interpret;
mod surface;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;
use warren_core::Profile;

use self::interpret::{Request, all_calls, all_steps, dump, interpret};
use super::assemble::Instruction;
use super::compile::{ARCHITECTURE, compile};
use super::policy::{ALLOWED, CHECKED, Call, REFUSED, STANDARD_ONLY, rules};
use super::program;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const PROFILES: [(Profile, &str); 2] = [(Profile::Standard, "standard"), (Profile::Strict, "strict")];
const X32: u32 = 1 << 30;

fn errno(number: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | number.unsigned_abs()
}

/// Compiled once for all cases of the property tests.
static PROGRAMS: LazyLock<[(Profile, Vec<Instruction>); 2]> =
    LazyLock::new(|| PROFILES.map(|(profile, _)| (profile, compiled(profile))));

fn compiled(profile: Profile) -> Vec<Instruction> {
    compile(&rules(profile))
}

fn run(program: &[Instruction], number: u32, arguments: [u64; 6]) -> u32 {
    interpret(program, Request { number, architecture: ARCHITECTURE, arguments }, &mut BTreeSet::new())
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("a small number")
}

/// The purpose of a rule, stated without the tables. `None`: the arguments do not matter.
fn restated(call: u32, arguments: [u64; 6]) -> Option<u32> {
    let [first, second, third, ..] = arguments;
    let low = |argument: u64| argument & 0xFFFF_FFFF;
    let deny_if = |bad: bool| if bad { errno(libc::EPERM) } else { ALLOW };
    let makes_device = |mode: u64| match mode & 0xF000 {
        0 | 0x1000 | 0x8000 | 0xC000 => ALLOW,
        0x2000 | 0x6000 => errno(libc::EPERM),
        // No node can be of these types, whoever refuses.
        other => deny_if(other & 0x2000 != 0),
    };
    let answer = match libc::c_long::from(call) {
        libc::SYS_ioctl if [0x5412, 0x541C, 0x5423].contains(&low(second)) => errno(libc::EPERM),
        libc::SYS_ioctl if HOST_IOCTLS.contains(&low(second)) => errno(libc::ENOTTY),
        libc::SYS_setsockopt => match (low(second), low(third)) {
            (1, 5 | 26 | 50 | 51 | 52) | (6, 31) | (17, 100) | (41, 32) => errno(libc::ENOPROTOOPT),
            _ => ALLOW,
        },
        libc::SYS_prctl if low(first) == 22 && low(second) == 2 => errno(libc::EINVAL),
        libc::SYS_prctl if [62, 67].contains(&low(first)) => errno(libc::EINVAL),
        libc::SYS_seccomp if low(first) == 1 => errno(libc::EINVAL),
        libc::SYS_fcntl if [1024, 1026].contains(&low(second)) => errno(libc::EINVAL),
        libc::SYS_ioctl | libc::SYS_prctl | libc::SYS_seccomp | libc::SYS_fcntl => ALLOW,
        libc::SYS_clone => deny_if(NAMESPACES.iter().any(|flag| first & flag != 0)),
        libc::SYS_mknod => makes_device(second),
        libc::SYS_mknodat => makes_device(third),
        libc::SYS_personality => deny_if(![0, 8, 0x20000, 0x20008, 0xFFFF_FFFF].contains(&low(first))),
        libc::SYS_setrlimit if low(first) == 4 => errno(0),
        libc::SYS_prlimit64 if low(second) == 4 && third != 0 => errno(0),
        libc::SYS_setrlimit | libc::SYS_prlimit64 => ALLOW,
        libc::SYS_socketpair if low(first) == 1 => ALLOW,
        libc::SYS_socketpair => errno(libc::EAFNOSUPPORT),
        libc::SYS_socket => socket(low(first), low(second), low(third)),
        _ => return None,
    };
    Some(answer)
}

/// Bridges, virtual links, flags and projects of files, keys of file systems.
const HOST_IOCTLS: [u64; 9] =
    [0x8940, 0x8941, 0x89A0, 0x89A1, 0x8982, 0x8983, 0x4008_6602, 0x401C_5820, 0xC050_6617];

const NAMESPACES: [u64; 7] =
    [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

fn socket(family: u64, kind: u64, protocol: u64) -> u32 {
    match (family, kind % 16, protocol) {
        (1, _, _) | (16, _, 0) => ALLOW,
        (2 | 10, 1 | 2, 0 | 1 | 6 | 17 | 58) => ALLOW,
        (2 | 10, 1 | 2, _) | (16, _, _) => errno(libc::EPROTONOSUPPORT),
        (2 | 10, _, _) => errno(libc::EPERM),
        _ => errno(libc::EAFNOSUPPORT),
    }
}

/// The tables' action for a call with these arguments.
fn expected(profile: Profile, call: u32, arguments: [u64; 6]) -> u32 {
    let among = |calls: &[Call]| calls.iter().any(|known| known.number == i64::from(call));
    if let Some(answer) = restated(call, arguments) {
        return answer;
    }
    let standard = profile == Profile::Standard && among(STANDARD_ONLY);
    if standard || ALLOWED.iter().any(|group| among(group)) {
        ALLOW
    } else if among(STANDARD_ONLY) || REFUSED.iter().any(|group| among(group)) {
        errno(libc::EPERM)
    } else {
        errno(libc::ENOSYS)
    }
}

#[test]
fn every_number_gets_what_the_tables_say() {
    let strange = [1 << 31, X32 - 1, u32::MAX, u32::MAX - 1];
    for (profile, name) in PROFILES {
        let program = compiled(profile);
        for number in (0..=600).chain(strange) {
            let answer = run(&program, number, [0; 6]);
            assert_eq!(answer, expected(profile, number, [0; 6]), "number {number}, {name}");
        }
    }
}

#[test]
fn the_x32_interface_does_not_exist() {
    for (profile, name) in PROFILES {
        let program = compiled(profile);
        for number in 0..=600 {
            assert_eq!(run(&program, number | X32, [0; 6]), errno(libc::ENOSYS), "number {number}, {name}");
        }
    }
}

#[test]
fn other_architectures_are_killed() {
    // i386 (also `int 0x80` of a 64-bit program), aarch64, nonsense.
    for architecture in [0x4000_0003, 0xC000_00B7, 0, u32::MAX] {
        for (profile, name) in PROFILES {
            let program = compiled(profile);
            for number in 0..=600 {
                let request = Request { number, architecture, arguments: [0; 6] };
                let answer = interpret(&program, request, &mut BTreeSet::new());
                assert_eq!(answer, KILL, "architecture {architecture:#x}, number {number}, {name}");
            }
        }
    }
}

#[test]
fn every_call_is_in_exactly_one_table() {
    let mut names: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for call in all_calls() {
        names.entry(call.number).or_default().push(call.name);
    }
    let shared: Vec<_> = names.values().filter(|names| names.len() > 1).collect();
    assert!(shared.is_empty(), "in two tables: {shared:?}");
    // The numbers Linux 6.18 has: nothing is between 336 and 424.
    assert!(names.keys().copied().eq((0..=336).chain(424..=469)));
}

#[test]
fn the_calls_that_must_be_refused_are() {
    let refused = [
        libc::SYS_io_uring_setup,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_move_mount,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_pidfd_getfd,
        libc::SYS_open_by_handle_at,
        libc::SYS_finit_module,
        libc::SYS_chroot,
    ];
    for (profile, name) in PROFILES {
        let program = compiled(profile);
        for call in refused {
            assert_eq!(run(&program, number(call), [0; 6]), errno(libc::EPERM), "number {call}, {name}");
        }
        assert_eq!(run(&program, number(libc::SYS_clone3), [0; 6]), errno(libc::ENOSYS), "clone3, {name}");
    }
}

#[test]
fn strict_refuses_what_only_standard_allows() {
    let (standard, strict) = (compiled(Profile::Standard), compiled(Profile::Strict));
    let differing: BTreeSet<u32> =
        (0..=600).filter(|number| run(&standard, *number, [0; 6]) != run(&strict, *number, [0; 6])).collect();
    let only_standard = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_modify_ldt,
        libc::SYS_splice,
        libc::SYS_tee,
        libc::SYS_vmsplice,
    ];
    assert_eq!(differing, only_standard.into_iter().map(number).collect());
}

/// Argument values on both sides of every comparison, alone and with bits the kernel ignores.
fn interesting() -> Vec<u64> {
    let small = (0..=70).chain([100, 132, 256, 262, 1024, 1025, 1026]);
    let large = [
        0x1000,
        0x2000,
        0x4000,
        0x5412,
        0x541C,
        0x5413,
        0x5423,
        0x6000,
        0x8000,
        0xA000,
        0xC000,
        0x20000,
        0x20008,
        0x80801,
        0x80803,
        0xFFFF_FFFF,
    ];
    let low = small.chain(large).chain(HOST_IOCTLS);
    let low = low.chain(NAMESPACES);
    low.flat_map(|value| [value, value | 1 << 32, value | 0xFFFF_FFFF << 32]).collect()
}

/// Arguments from which one more change reaches each part of a rule.
const STARTS: [[u64; 6]; 10] = [
    [0; 6],
    [2, 1, 0, 0, 0, 0],
    [10, 2, 0, 0, 0, 0],
    [16, 3, 0, 0, 0, 0],
    [0, 4, 0, 0, 0, 0],
    [22, 0, 0, 0, 0, 0],
    [3, 1, 0, 0, 0, 0],
    [3, 6, 0, 0, 0, 0],
    [3, 17, 0, 0, 0, 0],
    [3, 41, 0, 0, 0, 0],
];

/// Each jump is taken both ways by some call, so none is redundant and none is untested.
#[test]
fn every_instruction_is_needed() {
    let changes: Vec<([u64; 6], usize, u64)> = STARTS
        .into_iter()
        .flat_map(|start| (0..3).map(move |place| (start, place)))
        .flat_map(|(start, place)| interesting().into_iter().map(move |value| (start, place, value)))
        .collect();
    for (profile, name) in PROFILES {
        let program = compiled(profile);
        let mut steps = BTreeSet::new();
        for (number, architecture) in (0..=600).map(|number| (number, ARCHITECTURE)).chain([(0, 0)]) {
            interpret(&program, Request { number, architecture, arguments: [0; 6] }, &mut steps);
        }
        for (call, _) in CHECKED {
            let number = number(call.number);
            for (start, place, value) in &changes {
                let mut arguments = *start;
                arguments[*place] = *value;
                let request = Request { number, architecture: ARCHITECTURE, arguments };
                let answer = interpret(&program, request, &mut steps);
                assert_eq!(Some(answer), restated(number, arguments), "{}, {arguments:#x?}", call.name);
            }
        }
        let unused: Vec<_> = all_steps(&program).difference(&steps).copied().collect();
        assert!(unused.is_empty(), "never taken in {name}: {unused:?}\n{}", dump(&program));
    }
}

#[test]
fn bits_the_kernel_ignores_do_not_help() {
    let program = compiled(Profile::Standard);
    let high = 0xFFFF_FFFF << 32;
    assert_eq!(run(&program, number(libc::SYS_ioctl), [0, 0x5412 | high, 0, 0, 0, 0]), errno(libc::EPERM));
    assert_eq!(
        run(&program, number(libc::SYS_socket), [38 | high, 5, 0, 0, 0, 0]),
        errno(libc::EAFNOSUPPORT)
    );
    assert_eq!(run(&program, number(libc::SYS_setrlimit), [4 | high, 1, 0, 0, 0, 0]), errno(0));
    // A pointer that is null only in its lower half sets the limit all the same.
    assert_eq!(run(&program, number(libc::SYS_prlimit64), [0, 4, 1 << 32, 0, 0, 0]), errno(0));
    assert_eq!(run(&program, number(libc::SYS_prlimit64), [0, 4 | high, 0, 1, 0, 0]), ALLOW);
}

#[test]
fn programs_are_short() {
    for (profile, name) in PROFILES {
        let bytes = program(profile);
        assert_eq!(bytes.len() % 8, 0);
        assert!(bytes.len() / 8 <= 170, "{name}: {} instructions cost too much to load", bytes.len() / 8);
    }
}

#[test]
fn the_encoding_is_the_kernels() {
    let bytes = program(Profile::Standard);
    // `BPF_LD | BPF_W | BPF_ABS` of the architecture, at offset 4.
    assert_eq!(bytes[..8], [0x20, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(bytes[8..10], [0x15, 0]);
    assert_eq!(bytes[12..16], 0xC000_003E_u32.to_ne_bytes());
}

#[test]
fn programs_are_as_reviewed() {
    for (profile, name) in PROFILES {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/linux/seccomp/{name}.golden"));
        let now = dump(&compiled(profile));
        if env::var_os("WARREN_BLESS").is_some_and(|value| value == "1") {
            fs::write(&path, &now).unwrap();
        }
        let reviewed = fs::read_to_string(&path).unwrap();
        assert!(
            reviewed == now,
            "{} differs; if that is meant, run with WARREN_BLESS=1:\n{now}",
            path.display()
        );
    }
}

fn argument() -> impl Strategy<Value = u64> {
    let small =
        prop_oneof![prop::sample::select(interesting()), 0..300_u64, any::<u32>().prop_map(u64::from)];
    prop_oneof![
        small.clone(),
        (small, any::<u32>()).prop_map(|(low, high)| low | u64::from(high) << 32),
        any::<u64>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4096) })]

    #[test]
    fn checked_calls_do_what_is_said(
        call in prop::sample::select(CHECKED.iter().map(|(call, _)| number(call.number)).collect::<Vec<_>>()),
        arguments in prop::array::uniform6(argument()),
    ) {
        for (_, program) in &*PROGRAMS {
            prop_assert_eq!(Some(run(program, call, arguments)), restated(call, arguments));
        }
    }

    #[test]
    fn arguments_of_other_calls_do_not_matter(
        call in prop_oneof![0..600_u32, any::<u32>()],
        arguments in prop::array::uniform6(argument()),
    ) {
        for (profile, program) in &*PROGRAMS {
            prop_assert_eq!(run(program, call, arguments), expected(*profile, call, arguments));
        }
    }
}
